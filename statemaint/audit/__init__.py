"""Whether a restart would load what it should: verify and doctor. Nothing here can write."""

from statemaint.audit.diagnosis import Diagnosis
from statemaint.audit.doctor import doctor
from statemaint.audit.verify import Verification, digest_stores, verify

__all__ = ["Diagnosis", "Verification", "digest_stores", "doctor", "verify"]
