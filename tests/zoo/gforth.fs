\ Gforth: an engine of indirect jumps with data and return stacks of its own, dynamic code, CATCH and THROW by longjmp,
\ ALLOCATE. See zoo.h for what a round is.
: tree ( depth -- address )
  2 cells allocate throw swap
  dup 0> if
    2dup 1- recurse swap drop 2 pick !
    2dup 1- recurse swap drop 2 pick cell+ !
  else over 2 cells erase then drop ;

: fell ( address -- nodes )
  dup 0= if exit then
  dup @ recurse over cell+ @ recurse + 1+ swap free throw ;

: fib ( n -- f ) dup 2 < if exit then dup 1- recurse swap 2 - recurse + ;

\ A step's value arrives by a THROW; 0 would be none.
: step ( n -- ) 1+ throw ;

: worker ( i -- sum )
  0 20 0 do over i * ['] step catch nip 1- + loop nip ;

: workers ( -- sum ) 0 50 0 do i worker + loop ;

: right? ( -- flag ) 12 tree fell 20 fib + workers + 247706 = ;

: keep? ( -- flag ) s" keep" file-status nip 0= ;

variable rounds  variable wrong

: main
  right? 0= if 1 (bye) then
  ." ready" cr stdout flush-file throw
  begin keep? while 1 rounds +! right? 0= if 1 wrong +! then repeat
  ." rounds " rounds @ 0 .r ."  wrong " wrong @ 0 .r cr bye ;
main
