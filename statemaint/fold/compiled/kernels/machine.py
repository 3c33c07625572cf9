"""Unaligned loads and stores at a byte offset of a buffer. The caller checks the bounds.

A buffer is an array or, in loops that call others, its address: passing an array counts its
references, which takes longer than copying a word.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _buffer(array: Any) -> Any:
    return types.int64 if isinstance(array, types.Integer) else array


def _at(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, bits: int) -> Any:
    if isinstance(array_type, types.Integer):
        return builder.inttoptr(builder.add(array, offset), ir.IntType(bits).as_pointer())
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), ir.IntType(bits).as_pointer())


@intrinsic
def address(_typing: Any, _array: Any) -> Any:
    """Returns the address of a buffer, which must outlive all uses of the address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(_array), generate


def _loader(bits: int, result: Any, *, java: bool = False) -> Callable[..., Any]:
    @intrinsic
    def load(_typing: Any, array: Any, _offset: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.load(_at(context, builder, signature.args[0], *arguments, bits))
            value.align = 1
            return builder.sext(builder.bswap(value), ir.IntType(64)) if java else value

        return result(_buffer(array), types.int64), generate

    return load


def _storer(bits: int, value_type: Any) -> Callable[..., Any]:
    @intrinsic
    def store(_typing: Any, array: Any, _offset: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, offset, value = arguments
            place = _at(context, builder, signature.args[0], array, offset, bits)
            builder.store(value, place).align = 1
            return context.get_dummy_value()

        return types.void(_buffer(array), types.int64, value_type), generate

    return store


load8 = _loader(8, types.uint8)
load16 = _loader(16, types.uint16)
load32 = _loader(32, types.uint32)
load64 = _loader(64, types.uint64)
# The big-endian signed number that Java's `readInt` would return.
load_length = _loader(32, types.int64, java=True)
store8 = _storer(8, types.uint8)
store16 = _storer(16, types.uint16)
store32 = _storer(32, types.uint32)
store64 = _storer(64, types.uint64)


@intrinsic
def copy(_typing: Any, target: Any, _to: Any, source: Any, _from: Any, _count: Any) -> Any:
    """Copies bytes from one buffer to another; the two do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, to, source, start, count = arguments
        place = _at(context, builder, signature.args[0], target, to, 8)
        origin = _at(context, builder, signature.args[2], source, start, 8)
        pointer, size = ir.IntType(8).as_pointer(), ir.IntType(64)
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, size])
        builder.call(memcpy, [place, origin, count, ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    arguments = (_buffer(target), types.int64, _buffer(source), types.int64, types.int64)
    return types.void(*arguments), generate


@intrinsic
def trailing_zeros(_typing: Any, _value: Any) -> Any:
    """Returns the number of zero bits below a number's lowest one; the number must not be zero."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate
