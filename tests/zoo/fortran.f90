! Fortran with OpenMP: parallel loops with a reduction, tasks, recursion, allocatable components.
! See zoo.h for what a round is.
module work
  implicit none
  type tree
    type(tree), allocatable :: left, right
  end type
contains
  recursive subroutine grow(top, depth)
    type(tree), allocatable, intent(out) :: top
    integer, intent(in) :: depth
    if (depth < 0) return
    allocate(top)
    call grow(top%left, depth - 1)
    call grow(top%right, depth - 1)
  end subroutine

  recursive function nodes(top) result(count)
    type(tree), allocatable, intent(in) :: top
    integer :: count
    count = 0
    if (allocated(top)) count = 1 + nodes(top%left) + nodes(top%right)
  end function

  recursive function fib(n) result(value)
    integer, intent(in) :: n
    integer :: value, left, right
    value = n
    if (n < 2) return
    if (n > 15) then
      !$omp task shared(left)
      left = fib(n - 1)
      !$omp end task
      right = fib(n - 2)
      !$omp taskwait
    else
      left = fib(n - 1)
      right = fib(n - 2)
    end if
    value = left + right
  end function

  function round_is_right() result(right)
    logical :: right
    type(tree), allocatable :: top
    integer :: i, k, total, own
    total = 0
    !$omp parallel do reduction(+:total) schedule(dynamic) private(k)
    do i = 0, 49
      do k = 0, 19
        total = total + i * k
      end do
    end do
    !$omp parallel
    !$omp single
    own = fib(20)
    !$omp end single
    !$omp end parallel
    call grow(top, 12)
    right = total + own + nodes(top) == 247706
  end function
end module

program animal
  use work
  implicit none
  integer :: rounds = 0, wrong = 0
  logical :: keep
  if (.not. round_is_right()) stop 1
  print '(a)', 'ready'
  flush(6)
  do
    inquire(file='keep', exist=keep)
    if (.not. keep) exit
    rounds = rounds + 1
    if (.not. round_is_right()) wrong = wrong + 1
  end do
  print '(a,i0,a,i0)', 'rounds ', rounds, ' wrong ', wrong
end program
