#lang racket/base
;; Racket (on Chez Scheme): green threads switched by a timer, continuations, a generational collector, exceptions.
;; See zoo.h for what a round is.
(define (tree depth) (if (< depth 0) '() (cons (tree (- depth 1)) (tree (- depth 1)))))
(define (nodes tree) (if (null? tree) 0 (+ 1 (nodes (car tree)) (nodes (cdr tree)))))
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))

;; Each step leaves by a continuation, through an exception.
(define (worker i)
  (for/sum ([k (in-range 20)])
    (when (= k 10) (sleep 0))
    (call/ec (lambda (return)
               (with-handlers ([number? return]) (raise (* i k)))))))

(define (right?)
  (define results (make-channel))
  (for ([i (in-range 50)]) (thread (lambda () (channel-put results (worker i)))))
  (define total (for/sum ([i (in-range 50)]) (channel-get results)))
  (define words (for/hash ([i (in-range 500)]) (values (number->string i) i)))
  (and (= 247706 (+ total (nodes (tree 12)) (fib 20)))
       (= 499 (hash-ref words "499"))))

(unless (right?) (exit 1))
(displayln "ready")
(flush-output)
(let loop ([rounds 0] [wrong 0])
  (if (file-exists? "keep")
      (loop (+ rounds 1) (if (right?) wrong (+ wrong 1)))
      (printf "rounds ~a wrong ~a\n" rounds wrong)))
