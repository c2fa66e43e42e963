; A log-density of $size numbers z, which any thread may call: all that it writes is on the stack, or in its results.
;
; It is minus the sums of a kernel at the point start + directions·z, whose first sum is a value and whose others are its
; gradient. `data` has fields of 8 bytes: the number of rows, and the addresses of the table of columns, of start ($inputs
; numbers), of directions, row by row, of the transposed directions of the parameters, row by row, and of two positions
; for each of these rows, before and after all of its numbers other than 0.

; Returns start + x·y, where x is 0 outside of a range.
define internal double @dot(ptr %x, ptr %y, double %start, ptr %range) {
entry:
  %last.place = getelementptr i64, ptr %range, i64 1
  %first = load i64, ptr %range
  %last = load i64, ptr %last.place
  %has.numbers = icmp ult i64 %first, %last
  br i1 %has.numbers, label %next, label %end
next:
  %k = phi i64 [ %first, %entry ], [ %k.next, %next ]
  %sum = phi double [ %start, %entry ], [ %sum.next, %next ]
  %x.place = getelementptr double, ptr %x, i64 %k
  %y.place = getelementptr double, ptr %y, i64 %k
  %x.k = load double, ptr %x.place
  %y.k = load double, ptr %y.place
  %product = fmul contract double %x.k, %y.k
  %sum.next = fadd contract double %sum, %product
  %k.next = add i64 %k, 1
  %is.more = icmp ult i64 %k.next, %last
  br i1 %is.more, label %next, label %end
end:
  %result = phi double [ %start, %entry ], [ %sum.next, %next ]
  ret double %result
}

; Copies the numbers, which are the draw, and returns 0.
define i64 @copy(i64 %size, i64 %count, ptr %z, ptr %out, ptr %data) {
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %z, i64 $size_bytes, i1 false)
  ret i64 0
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Computes the value and the gradient. Returns 0, or 3 if one of these numbers is not finite.
define i64 @density(i64 %size, ptr %z, ptr %gradient, ptr %value, ptr %data) #0 {
entry:
  %memory = alloca [$memory_bytes x i8], align 64
  %point = alloca [$inputs x double], align 64
  %sums = alloca [$outputs x double], align 64
  %totals = alloca [$outputs x double], align 64
  %columns.field = getelementptr i64, ptr %data, i64 1
  %start.field = getelementptr i64, ptr %data, i64 2
  %directions.field = getelementptr i64, ptr %data, i64 3
  %transposed.field = getelementptr i64, ptr %data, i64 4
  %ranges.field = getelementptr i64, ptr %data, i64 5
  %ranges = load ptr, ptr %ranges.field
  %rows = load i64, ptr %data
  %columns = load ptr, ptr %columns.field
  %start = load ptr, ptr %start.field
  %directions = load ptr, ptr %directions.field
  %transposed = load ptr, ptr %transposed.field
  br label %input

input:  ; the point
  %i = phi i64 [ 0, %entry ], [ %i.next, %input ]
  %i.row = mul i64 %i, $size
  %direction = getelementptr double, ptr %directions, i64 %i.row
  %start.place = getelementptr double, ptr %start, i64 %i
  %start.i = load double, ptr %start.place
  %input.range = getelementptr [2 x i64], ptr %ranges, i64 %i
  %input.i = call double @dot(ptr %direction, ptr %z, double %start.i, ptr %input.range)
  %point.place = getelementptr double, ptr %point, i64 %i
  store double %input.i, ptr %point.place
  %i.next = add i64 %i, 1
  %has.inputs = icmp ult i64 %i.next, $inputs
  br i1 %has.inputs, label %input, label %begin

begin:
  call void @prologue(ptr %memory, ptr %point)
  call void @llvm.memset.p0.i64(ptr %totals, i8 0, i64 $output_bytes, i1 false)
  br label %rows.of.block

rows.of.block:
  %first = phi i64 [ 0, %begin ], [ %first.next, %block.end ]
  %left = sub i64 %rows, %first
  %is.last = icmp ult i64 %left, $block
  %count = select i1 %is.last, i64 %left, i64 $block
  call void @block(ptr %memory, ptr %point, ptr %columns, i64 %first, i64 %count, ptr %sums, i64 0)
  br label %add

add:
  %j = phi i64 [ 0, %rows.of.block ], [ %j.next, %add ]
  %sum.place = getelementptr double, ptr %sums, i64 %j
  %total.place = getelementptr double, ptr %totals, i64 %j
  %sum.j = load double, ptr %sum.place
  %total.j = load double, ptr %total.place
  %total.next = fadd double %total.j, %sum.j
  store double %total.next, ptr %total.place
  %j.next = add i64 %j, 1
  %has.sums = icmp ult i64 %j.next, $outputs
  br i1 %has.sums, label %add, label %block.end

block.end:
  %first.next = add i64 %first, $block
  %has.rows = icmp ult i64 %first.next, %rows
  br i1 %has.rows, label %rows.of.block, label %results

results:
  %loss = load double, ptr %totals
  %density.value = fneg double %loss
  store double %density.value, ptr %value
  %slopes = getelementptr double, ptr %totals, i64 1
  br label %slope

slope:
  %k = phi i64 [ 0, %results ], [ %k.next, %slope ]
  %check = phi double [ %density.value, %results ], [ %check.next, %slope ]  ; nan after a number that is not finite
  %k.row = mul i64 %k, $size
  %transposed.place = getelementptr double, ptr %transposed, i64 %k.row
  %range.number = add i64 %k, $inputs
  %slope.range = getelementptr [2 x i64], ptr %ranges, i64 %range.number
  %loss.slope = call double @dot(ptr %transposed.place, ptr %slopes, double 0.0, ptr %slope.range)
  %slope.k = fneg double %loss.slope
  %gradient.place = getelementptr double, ptr %gradient, i64 %k
  store double %slope.k, ptr %gradient.place
  %slope.check = fmul double %slope.k, 0.0
  %check.next = fadd double %check, %slope.check
  %k.next = add i64 %k, 1
  %has.slopes = icmp ult i64 %k.next, $size
  br i1 %has.slopes, label %slope, label %end

end:
  %difference = fsub double %check.next, %check.next
  %is.finite = fcmp ord double %difference, 0.0
  %status = select i1 %is.finite, i64 0, i64 3
  ret i64 %status
}
