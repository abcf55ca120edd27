;; Guile: bytecode with a JIT, continuations copied from and to the stack, prompts, threads, Boehm's collector.
;; See zoo.h for what a round is.
(use-modules (ice-9 threads) (srfi srfi-1))

(define (tree depth) (if (< depth 0) '() (cons (tree (- depth 1)) (tree (- depth 1)))))
(define (nodes tree) (if (null? tree) 0 (+ 1 (nodes (car tree)) (nodes (cdr tree)))))
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))

;; A generator by a delimited continuation: each step stops in the middle of a loop and is gone on with.
(define tag (make-prompt-tag "step"))

(define (steps i)
  (let loop ((k 0))
    (when (< k 20)
      (abort-to-prompt tag (* i k))
      (loop (+ k 1)))))

(define (worker i)
  (let loop ((sum 0) (next (lambda () (steps i) #f)))
    (let ((step (call-with-prompt tag next (lambda (continuation value) (cons continuation value)))))
      (if (pair? step)
          (loop (+ sum (cdr step) (catch 'zero (lambda () (throw 'zero 0)) (lambda (key value) value)))
                (lambda () ((car step)) #f))
          sum))))

(define (right?)
  (let* ((thread (call-with-new-thread (lambda () (apply + (map worker (iota 25))))))
         (own (apply + (map worker (iota 25 25))))
         (whole (call/cc (lambda (return) (return (+ own (nodes (tree 12)) (fib 20)))))))
    (= 247706 (+ whole (join-thread thread)))))

(unless (right?) (exit 1))
(display "ready\n")
(force-output)
(let loop ((rounds 0) (wrong 0))
  (if (file-exists? "keep")
      (loop (+ rounds 1) (if (right?) wrong (+ wrong 1)))
      (format #t "rounds ~a wrong ~a\n" rounds wrong)))
