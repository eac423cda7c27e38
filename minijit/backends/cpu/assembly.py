"""LLVM assembly of the launch path; ``$name`` stands for an offset or the number of a field."""

from __future__ import annotations

__all__ = ["ALONE", "LAUNCH"]

ALONE = """
declare ptr @malloc(i64)
declare void @free(ptr)
; Runs units [0, units) in this thread; false when there is no memory for scratch.
define private i1 @alone(ptr %entry, i64 %units, i64 %bytes, ptr %args) {
  %memory = call ptr @scratch(i64 %bytes)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %no, label %yes
yes:
  %aligned = call ptr @aligned(ptr %memory)
  call void %entry(i64 0, i64 %units, ptr %aligned, ptr %args)
  call void @free(ptr %memory)
  ret i1 true
no:
  ret i1 false
}
define private ptr @scratch(i64 %bytes) {
  %size = add i64 %bytes, 64
  %memory = call ptr @malloc(i64 %size)
  ret ptr %memory
}
define private ptr @aligned(ptr %memory) {
  %raw = ptrtoint ptr %memory to i64
  %up = add i64 %raw, 63
  %whole = and i64 %up, -64
  %aligned = inttoptr i64 %whole to ptr
  ret ptr %aligned
}
"""

LAUNCH = """
declare i32 @PyErr_ExceptionMatches(ptr)
declare ptr @PyErr_Format(ptr, ptr, ...)
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Occurred()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyNumber_Index(ptr)
declare i32 @PyObject_IsTrue(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
@signed_format = private constant [42 x i8] c"Python integer %S out of bounds for int%d\\00"
@unsigned_format = private constant [43 x i8] c"Python integer %S out of bounds for uint%d\\00"
; Stores the bits of a Python or NumPy integer; false, with an exception, when the kind's type has
; no such number.
define private i1 @integer(ptr %object, i64 %kind, ptr %place, ptr %overflow_error) {
  %size = and i64 %kind, 3
  %width = shl i64 8, %size
  %spare = sub i64 64, %width
  %signed = icmp ult i64 %kind, 8
  %widest = icmp eq i64 %kind, 11
  br i1 %widest, label %unsigned, label %narrow
narrow:
  %number = call i64 @PyLong_AsLongLong(ptr %object)
  %up = shl i64 %number, %spare
  %arithmetic = ashr i64 %up, %spare
  %logical = lshr i64 %up, %spare
  %cut = select i1 %signed, i64 %arithmetic, i64 %logical
  %fits = icmp eq i64 %cut, %number
  br label %converted
; Its conversion takes nothing but Python's own integers.
unsigned:
  %index = call ptr @PyNumber_Index(ptr %object)
  %none = icmp eq ptr %index, null
  br i1 %none, label %failed, label %found
found:
  %large = call i64 @PyLong_AsUnsignedLongLong(ptr %index)
  call void @Py_DecRef(ptr %index)
  br label %converted
converted:
  %bits = phi i64 [ %number, %narrow ], [ %large, %found ]
  %inside = phi i1 [ %fits, %narrow ], [ true, %found ]
  store i64 %bits, ptr %place
  %suspect = icmp eq i64 %bits, -1
  br i1 %suspect, label %check, label %judge
check:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %judge, label %wrong
wrong:
  %overflow = call i32 @PyErr_ExceptionMatches(ptr %overflow_error)
  %large_too = icmp ne i32 %overflow, 0
  br i1 %large_too, label %refuse, label %failed
judge:
  br i1 %inside, label %done, label %refuse
refuse:
  %format = select i1 %signed, ptr @signed_format, ptr @unsigned_format
  %bits_wide = trunc i64 %width to i32
  %raised = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %overflow_error, ptr %format,
                                                   ptr %object, i32 %bits_wide)
  br label %failed
failed:
  ret i1 false
done:
  ret i1 true
}
; PyCFunction with one argument: self is the launch record, the argument a tuple.
define ptr @launch(ptr %self, ptr %tuple) {
start:
  %precord = getelementptr i8, ptr %self, i64 $data
  %record = load ptr, ptr %precord
  %entry = load ptr, ptr %record
  %pcount = getelementptr i64, ptr %record, i64 1
  %count = load i64, ptr %pcount
  %punits = getelementptr i64, ptr %record, i64 2
  %units = load i64, ptr %punits
  %pbytes = getelementptr i64, ptr %record, i64 3
  %bytes = load i64, ptr %pbytes
  %pmode = getelementptr i64, ptr %record, i64 4
  %mode = load i64, ptr %pmode
  %ppool = getelementptr i64, ptr %record, i64 5
  %pool = load ptr, ptr %ppool
  %pnone = getelementptr i64, ptr %record, i64 6
  %none_object = load ptr, ptr %pnone
  %poverflow = getelementptr i64, ptr %record, i64 7
  %overflow_error = load ptr, ptr %poverflow
  %kinds = getelementptr i64, ptr %record, i64 $header
  %items = getelementptr i8, ptr %tuple, i64 $item
  %args = alloca i64, i64 %count
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %i1, %store ], [ %i1, %whole ], [ %i1, %size ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %run, label %one
one:
  %i1 = add i64 %i, 1
  %pkind = getelementptr i64, ptr %kinds, i64 %i
  %kind = load i64, ptr %pkind
  %place = getelementptr i64, ptr %args, i64 %i
  %is_size = icmp eq i64 %kind, $SIZE_KIND
  br i1 %is_size, label %size, label %given
size:
  %after = add i64 %count, %i
  %psize = getelementptr i64, ptr %kinds, i64 %after
  %known = load i64, ptr %psize
  store i64 %known, ptr %place
  br label %next
given:
  %pobject = getelementptr ptr, ptr %items, i64 %i
  %object = load ptr, ptr %pobject
  switch i64 %kind, label %whole [ i64 0, label %buffer i64 1, label %real i64 2, label %real
                                   i64 3, label %truth ]
buffer:
  %pdata = getelementptr i8, ptr %object, i64 $data
  %address = load i64, ptr %pdata
  br label %store
real:
  %double = call double @PyFloat_AsDouble(ptr %object)
  %dsuspect = fcmp oeq double %double, -1.0
  %dbits = bitcast double %double to i64
  %float = fptrunc double %double to float
  %fbits = bitcast float %float to i32
  %fwide = zext i32 %fbits to i64
  %single = icmp eq i64 %kind, 1
  %rbits = select i1 %single, i64 %fwide, i64 %dbits
  br label %converted
whole:
  %taken = call i1 @integer(ptr %object, i64 %kind, ptr %place, ptr %overflow_error)
  br i1 %taken, label %next, label %failed
truth:
  %tbits32 = call i32 @PyObject_IsTrue(ptr %object)
  %tbits = sext i32 %tbits32 to i64
  %tsuspect = icmp eq i64 %tbits, -1
  br label %converted
converted:
  %bits = phi i64 [ %rbits, %real ], [ %tbits, %truth ]
  %suspect = phi i1 [ %dsuspect, %real ], [ %tsuspect, %truth ]
  br i1 %suspect, label %check, label %store
check:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %store, label %failed
store:
  %value = phi i64 [ %address, %buffer ], [ %bits, %converted ], [ %bits, %check ]
  store i64 %value, ptr %place
  br label %next
run:
  switch i64 %mode, label %holding [ i64 1, label %released i64 2, label %released ]
holding:
  %held = call i1 @alone(ptr %entry, i64 %units, i64 %bytes, ptr %args)
  br label %finished
released:
  %thread = call ptr @PyEval_SaveThread()
  %many = icmp eq i64 %mode, 2
  br i1 %many, label %pooled, label %single_thread
pooled:
  %p = call i1 @parallel(ptr %pool, ptr %entry, i64 %units, i64 %bytes, ptr %args)
  br label %restored
single_thread:
  %s = call i1 @alone(ptr %entry, i64 %units, i64 %bytes, ptr %args)
  br label %restored
restored:
  %ran = phi i1 [ %p, %pooled ], [ %s, %single_thread ]
  call void @PyEval_RestoreThread(ptr %thread)
  br label %finished
finished:
  %ok = phi i1 [ %held, %holding ], [ %ran, %restored ]
  br i1 %ok, label %none, label %memory
memory:
  %raised = call ptr @PyErr_NoMemory()
  br label %failed
failed:
  ret ptr null
none:
  call void @Py_IncRef(ptr %none_object)
  ret ptr %none_object
}
"""
