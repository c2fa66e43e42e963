; Shares jobs between threads.
;
; `words` are the address of the job that is under way, or 0, and, a cache line apart, the number of helpers at work.
; A job is a table of 8-byte fields: the addresses of a function and of its argument, the number of threads, and the
; address of each thread's memory.
;
; `@pause` and `@nap` are defined for each processor: they wait for an instruction, and for some microseconds.

; Works on a job as the thread with this number.
define internal void @work(ptr %job, i64 %number) {
  %run = load ptr, ptr %job
  %argument.place = getelementptr i64, ptr %job, i64 1
  %argument = load ptr, ptr %argument.place
  %memory.number = add i64 %number, 3
  %memory.place = getelementptr i64, ptr %job, i64 %memory.number
  %memory = load ptr, ptr %memory.place
  call void %run(ptr %argument, ptr %memory)
  ret void
}

; Works on jobs, until none has arrived for `patience` polls.
define void @serve(ptr %words, i64 %number, i64 %patience) {
entry:
  %helpers = getelementptr i8, ptr %words, i64 64
  br label %look
look:
  %left = phi i64 [ %patience, %entry ], [ %less, %wait ], [ %patience, %leave ]
  %last = phi i64 [ 0, %entry ], [ %word, %wait ], [ %word, %leave ]
  %word = load atomic i64, ptr %words acquire, align 8
  %is.none = icmp eq i64 %word, 0
  %is.known = icmp eq i64 %word, %last
  %is.idle = or i1 %is.none, %is.known
  br i1 %is.idle, label %idle, label %enter
idle:
  %is.over = icmp eq i64 %left, 0
  br i1 %is.over, label %end, label %wait
wait:
  %less = sub i64 %left, 1
  call void @pause()
  br label %look
enter:
  %before = atomicrmw add ptr %helpers, i64 1 seq_cst
  %now = load atomic i64, ptr %words seq_cst, align 8
  %is.same = icmp eq i64 %now, %word
  br i1 %is.same, label %check, label %leave
check:
  %job = inttoptr i64 %word to ptr
  %count.place = getelementptr i64, ptr %job, i64 2
  %count = load i64, ptr %count.place
  %is.needed = icmp ult i64 %number, %count
  br i1 %is.needed, label %do, label %leave
do:
  call void @work(ptr %job, i64 %number)
  br label %leave
leave:
  %after = atomicrmw sub ptr %helpers, i64 1 seq_cst
  br label %look
end:
  ret void
}

; Offers a job to helpers, unless another one is under way, works on it, and waits until no helper is at work: some
; thousand polls long without sleep.
define void @share(ptr %words, ptr %job) {
entry:
  %word = ptrtoint ptr %job to i64
  %offered = cmpxchg ptr %words, i64 0, i64 %word seq_cst seq_cst
  call void @work(ptr %job, i64 0)
  %is.offered = extractvalue { i64, i1 } %offered, 1
  br i1 %is.offered, label %close, label %end
close:
  %helpers = getelementptr i8, ptr %words, i64 64
  store atomic i64 0, ptr %words seq_cst, align 8
  br label %watch
watch:
  %looks = phi i64 [ 0, %close ], [ %more, %soon ], [ %more, %late ]
  %working = load atomic i64, ptr %helpers seq_cst, align 8
  %is.done = icmp eq i64 %working, 0
  br i1 %is.done, label %end, label %on
on:
  %more = add i64 %looks, 1
  %is.soon = icmp ult i64 %looks, 2000
  br i1 %is.soon, label %soon, label %late
soon:
  call void @pause()
  br label %watch
late:
  call void @nap()
  br label %watch
end:
  ret void
}
