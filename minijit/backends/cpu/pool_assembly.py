"""LLVM assembly of the pool's threads; ``$name`` stands for the number of a field."""

from __future__ import annotations

__all__ = ["NO_POOL", "POOL"]

POOL = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sem_post(ptr)
declare i32 @sem_trywait(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sigfillset(ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.x86.sse2.pause()
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
; Waits for a semaphore: at first awake, since it may take longer to wake up than to wait.
define private void @await(ptr %semaphore) {
start:
  br label %look
look:
  %count = phi i64 [ 0, %start ], [ %looked, %pause ]
  %tried = call i32 @sem_trywait(ptr %semaphore)
  %now = icmp eq i32 %tried, 0
  br i1 %now, label %over, label %later
later:
  %looked = add i64 %count, 1
  %patient = icmp slt i64 %looked, $LOOKS
  br i1 %patient, label %pause, label %sleep
pause:
  $PAUSE
  br label %look
sleep:
  %woken = call i32 @sem_wait(ptr %semaphore)
  %really = icmp eq i32 %woken, 0
  br i1 %really, label %over, label %sleep
over:
  ret void
}
; Body of a thread of the pool.
define ptr @worker(ptr %pool) {
start:
  %wake = getelementptr i64, ptr %pool, i64 $WAKE
  %done = getelementptr i64, ptr %pool, i64 $DONE
  br label %next
next:
  call void @await(ptr %wake)
  %worked = call i1 @work(ptr %pool)
  %posted = call i32 @sem_post(ptr %done)
  br label %next
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
  %left = phi i64 [ %out, %recall ], [ %left1, %wait ]
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %wait, label %over
wait:
  call void @await(ptr %done)
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
