;;; SBCL: native code, a moving collector that stops threads by signals, write barriers by SIGSEGV, conditions,
;;; special variables, bignums. Threads come and go while the main thread works, too. See zoo.h for what a round is.
(declaim (optimize (speed 1) (safety 1)))

(defun tree (depth)
  (if (zerop depth) (list nil) (cons (tree (1- depth)) (tree (1- depth)))))

(defun nodes (tree)
  (cond ((null tree) 0)
        ((null (cdr tree)) 1)
        (t (+ 1 (nodes (car tree)) (nodes (cdr tree))))))

(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))

(define-condition step-done (error) ((value :initarg :value :reader value)))

(defun worker (i)
  (loop for k below 20
        sum (handler-case (error 'step-done :value (* i k))
              (step-done (done) (value done)))))

;; Objects that survive a collection and are written to afterwards: that is what barriers are for.
(defvar *old* (make-array 20000 :initial-element nil))

(defun old-objects-are-right ()
  (loop for i below 20000 by 7 do (setf (svref *old* i) (list i (* i i))))
  (loop for i below 20000 by 7
        always (equal (svref *old* i) (list i (* i i)))))

(defun round-is-right ()
  (let ((threads (loop for i below 50 by 25
                       collect (let ((first i))
                                 (sb-thread:make-thread
                                  (lambda () (loop for i from first below (+ first 25) sum (worker i))))))))
    (and (= 14956 (+ (nodes (tree 12)) (fib 20)))
         (old-objects-are-right)
         (= 375 (length (princ-to-string (reduce #'* (loop for i from 1 to 200 collect i)))))
         (= 232750 (reduce #'+ (mapcar #'sb-thread:join-thread threads))))))

(unless (round-is-right) (sb-ext:exit :code 1))
(format t "ready~%")
(finish-output)
(let ((rounds 0) (wrong 0))
  (loop while (probe-file "keep")
        do (incf rounds)
           (unless (round-is-right) (incf wrong)))
  (format t "rounds ~d wrong ~d~%" rounds wrong))
