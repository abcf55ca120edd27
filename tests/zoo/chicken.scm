;; CHICKEN: Scheme compiled to C that never returns: the C stack is the nursery of the collector, and is thrown away
;; when it is full. Continuations are closures. See zoo.h for what a round is.
(import (chicken base) (chicken file) (chicken format) (chicken condition))

(define (tree depth) (if (< depth 0) '() (cons (tree (- depth 1)) (tree (- depth 1)))))
(define (nodes tree) (if (null? tree) 0 (+ 1 (nodes (car tree)) (nodes (cdr tree)))))
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))

;; Coroutines by call/cc, run in turn from a queue.
(define queue '())
(define (yield)
  (call/cc (lambda (rest)
             (set! queue (append queue (list (lambda () (rest #f)))))
             (run-next))))
(define done #f)
(define (run-next)
  (if (null? queue)
      (done #f)
      (let ((next (car queue)))
        (set! queue (cdr queue))
        (next))))

(define total 0)
(define (worker i)
  (do ((k 0 (+ k 1))) ((= k 20))
    (set! total (+ total (handle-exceptions value value (signal (* i k)))))
    (yield))
  (run-next))

(define (right?)
  (set! total 0)
  (do ((i 0 (+ i 1))) ((= i 50))
    (set! queue (cons (lambda () (worker i)) queue)))
  (call/cc (lambda (return) (set! done return) (run-next)))
  (= 247706 (+ total (nodes (tree 12)) (fib 20))))

(unless (right?) (exit 1))
(print "ready")
(flush-output)
(let loop ((rounds 0) (wrong 0))
  (if (file-exists? "keep")
      (loop (+ rounds 1) (if (right?) wrong (+ wrong 1)))
      (printf "rounds ~a wrong ~a~%" rounds wrong)))
