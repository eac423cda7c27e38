"""LLVM assembly of the launch path; ``$name`` stands for an offset or the number of a field."""

from __future__ import annotations

__all__ = ["ALONE", "LAUNCH", "NO_POOL", "POOL"]

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

POOL = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sem_post(ptr)
declare i32 @sem_trywait(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sigfillset(ptr)
declare i64 @llvm.smin.i64(i64, i64)
; Claims units one by one until none is left.
define private i1 @work(ptr %pool) {
  %memory = call ptr @scratch_of(ptr %pool)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %no, label %yes
yes:
  %aligned = call ptr @aligned(ptr %memory)
  %pentry = getelementptr i64, ptr %pool, i64 $ENTRY
  %entry = load ptr, ptr %pentry
  %punits = getelementptr i64, ptr %pool, i64 $UNITS
  %units = load i64, ptr %punits
  %pargs = getelementptr i64, ptr %pool, i64 $ARGUMENTS
  %args = load ptr, ptr %pargs
  %next = getelementptr i64, ptr %pool, i64 $NEXT
  br label %claim
claim:
  %unit = atomicrmw add ptr %next, i64 1 seq_cst
  %more = icmp slt i64 %unit, %units
  br i1 %more, label %run, label %over
run:
  %stop = add i64 %unit, 1
  call void %entry(i64 %unit, i64 %stop, ptr %aligned, ptr %args)
  br label %claim
over:
  call void @free(ptr %memory)
  ret i1 true
no:
  ret i1 false
}
define private ptr @scratch_of(ptr %pool) {
  %pbytes = getelementptr i64, ptr %pool, i64 $SCRATCH
  %bytes = load i64, ptr %pbytes
  %memory = call ptr @scratch(i64 %bytes)
  ret ptr %memory
}
; Body of a thread of the pool.
define ptr @worker(ptr %pool) {
  %wake = getelementptr i64, ptr %pool, i64 $WAKE
  %done = getelementptr i64, ptr %pool, i64 $DONE
  br label %sleep
sleep:
  %woken = call i32 @sem_wait(ptr %wake)
  %really = icmp eq i32 %woken, 0
  br i1 %really, label %job, label %sleep
job:
  %worked = call i1 @work(ptr %pool)
  %posted = call i32 @sem_post(ptr %done)
  br label %sleep
}
; Starts the wanted threads with all signals blocked: signals belong to Python's threads.
define private void @start(ptr %pool) {
entry:
  %all = alloca [32 x i64]
  %old = alloca [32 x i64]
  %thread = alloca i64
  %pwanted = getelementptr i64, ptr %pool, i64 $WANTED
  %wanted = load i64, ptr %pwanted
  %pstarted = getelementptr i64, ptr %pool, i64 $STARTED
  %before = load i64, ptr %pstarted
  %enough = icmp sge i64 %before, %wanted
  br i1 %enough, label %over, label %block
block:
  %filled = call i32 @sigfillset(ptr %all)
  %blocked = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %more
more:
  %count = phi i64 [ %before, %block ], [ %after, %made ]
  %missing = icmp slt i64 %count, %wanted
  br i1 %missing, label %make, label %restore
make:
  %error = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %pool)
  %refused = icmp ne i32 %error, 0
  br i1 %refused, label %restore, label %made
made:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  %after = add i64 %count, 1
  store i64 %after, ptr %pstarted
  br label %more
restore:
  %restored = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  br label %over
over:
  ret void
}
; Runs a job on the pool, or alone while another thread's job has it.
define private i1 @parallel(ptr %pool, ptr %entry, i64 %units, i64 %bytes, ptr %args) {
start:
  %busy = getelementptr i64, ptr %pool, i64 $BUSY
  %swap = cmpxchg ptr %busy, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue { i64, i1 } %swap, 1
  br i1 %free, label %mine, label %taken
taken:
  %alone = call i1 @alone(ptr %entry, i64 %units, i64 %bytes, ptr %args)
  ret i1 %alone
mine:
  call void @start(ptr %pool)
  %pentry = getelementptr i64, ptr %pool, i64 $ENTRY
  store ptr %entry, ptr %pentry
  %punits = getelementptr i64, ptr %pool, i64 $UNITS
  store i64 %units, ptr %punits
  %pbytes = getelementptr i64, ptr %pool, i64 $SCRATCH
  store i64 %bytes, ptr %pbytes
  %pargs = getelementptr i64, ptr %pool, i64 $ARGUMENTS
  store ptr %args, ptr %pargs
  %next = getelementptr i64, ptr %pool, i64 $NEXT
  store atomic i64 0, ptr %next seq_cst, align 8
  %wake = getelementptr i64, ptr %pool, i64 $WAKE
  %done = getelementptr i64, ptr %pool, i64 $DONE
  %pstarted = getelementptr i64, ptr %pool, i64 $STARTED
  %pwanted = getelementptr i64, ptr %pool, i64 $WANTED
  %started = load i64, ptr %pstarted
  %wanted = load i64, ptr %pwanted
  %others = sub i64 %units, 1
  %allowed = call i64 @llvm.smin.i64(i64 %started, i64 %wanted)
  %summoned = call i64 @llvm.smin.i64(i64 %allowed, i64 %others)
  br label %waking
waking:
  %woken = phi i64 [ 0, %mine ], [ %woken1, %post ]
  %more = icmp slt i64 %woken, %summoned
  br i1 %more, label %post, label %work
post:
  %posted = call i32 @sem_post(ptr %wake)
  %woken1 = add i64 %woken, 1
  br label %waking
work:
  %worked = call i1 @work(ptr %pool)
  br label %recall
; A thread that has not woken up by now need not: take its call back rather than wait for it.
recall:
  %out = phi i64 [ %summoned, %work ], [ %out1, %recalled ]
  %tried = call i32 @sem_trywait(ptr %wake)
  %back = icmp eq i32 %tried, 0
  br i1 %back, label %recalled, label %waiting
recalled:
  %out1 = sub i64 %out, 1
  br label %recall
waiting:
  %left = phi i64 [ %out, %recall ], [ %left1, %heard ], [ %left, %wait ]
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %wait, label %over
wait:
  %result = call i32 @sem_wait(ptr %done)
  %really = icmp eq i32 %result, 0
  br i1 %really, label %heard, label %waiting
heard:
  %left1 = sub i64 %left, 1
  br label %waiting
over:
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret i1 %worked
}
"""

NO_POOL = """
define private i1 @parallel(ptr %pool, ptr %entry, i64 %units, i64 %bytes, ptr %args) {
  %alone = call i1 @alone(ptr %entry, i64 %units, i64 %bytes, ptr %args)
  ret i1 %alone
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
