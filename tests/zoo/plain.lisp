;;; CLISP, ECL and GCL: byte code, conditions, bignums, closures; CLISP's collector moves objects and uses page faults,
;;; ECL's is Boehm's, GCL has a malloc of its own. See zoo.h for what a round is.
(defun tree (depth) (if (< depth 0) nil (cons (tree (1- depth)) (tree (1- depth)))))
(defun nodes (tree) (if (null tree) 0 (+ 1 (nodes (car tree)) (nodes (cdr tree)))))
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))

(define-condition step-done (error) ((value :initarg :value :reader value)))

(defun worker (i)
  (let ((sum 0))
    (dotimes (k 20 sum)
      (incf sum (handler-case (error 'step-done :value (* i k))
                  (step-done (done) (value done)))))))

(defun digits ()
  (let ((product 1))
    (dotimes (i 200 (length (princ-to-string product)))
      (setq product (* product (1+ i))))))

(defun right-p ()
  (let ((sum 0))
    (dotimes (i 50) (incf sum (worker i)))
    (and (= 247706 (+ sum (nodes (tree 12)) (fib 20))) (= 375 (digits)))))

(assert (right-p))
(format t "ready~%")
(finish-output)
(let ((rounds 0) (wrong 0))
  (loop while (probe-file "keep")
        do (incf rounds)
           (unless (right-p) (incf wrong)))
  (format t "rounds ~d wrong ~d~%" rounds wrong)
  (finish-output))
