;; Chez Scheme: native code, a segmented stack, one-shot continuations, engines (threads of control with a budget),
;; a generational collector. See zoo.h for what a round is.
(define (tree depth) (if (< depth 0) '() (cons (tree (- depth 1)) (tree (- depth 1)))))
(define (nodes tree) (if (null? tree) 0 (+ 1 (nodes (car tree)) (nodes (cdr tree)))))
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))

(define (worker i)
  (let loop ((k 0) (sum 0))
    (if (= k 20)
        sum
        (loop (+ k 1)
              (+ sum (call/cc (lambda (return)
                                (with-exception-handler return (lambda () (raise (* i k)))))))))))

;; Runs engines in turn, each for a few hundred procedure calls.
(define (run engines total)
  (if (null? engines)
      total
      ((car engines) 300
       (lambda (left value) (run (cdr engines) (+ total value)))
       (lambda (engine) (run (append (cdr engines) (list engine)) total)))))

(define (right?)
  (let ((engines (map (lambda (i) (make-engine (lambda () (worker i)))) (iota 50))))
    (= 247706 (+ (run engines 0) (nodes (tree 12)) (fib 20)))))

(unless (right?) (exit 1))
(display "ready\n")
(flush-output-port)
(let loop ((rounds 0) (wrong 0))
  (if (file-exists? "keep")
      (loop (+ rounds 1) (if (right?) wrong (+ wrong 1)))
      (begin (format #t "rounds ~a wrong ~a\n" rounds wrong) (exit 0))))
