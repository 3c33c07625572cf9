"""Whether a restart would load the right state: verify, digest and doctor.

These read storages through `ReadOnly` and cannot import `execute`: nothing here can write.
"""

from statemaint.audit.digests import digest_stores
from statemaint.audit.doctor import Diagnosis, doctor
from statemaint.audit.verify import Verification, verify

__all__ = ["Diagnosis", "Verification", "digest_stores", "doctor", "verify"]
