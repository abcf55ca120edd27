"""An HTTP server with a thread for each connection.

Says on which port; ends when its standard input does.
"""

import http.server
import sys
import threading

served = 0
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global served
        body = (str(sum(i * i for i in range(300))) * 20).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        with lock:
            served += 1

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # wrk ends without a goodbye
            super().handle_error(request, client_address)


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdout.write(f"ready port={server.server_port}\n")
sys.stdout.flush()
sys.stdin.read()
server.shutdown()
sys.stdout.write(f"served {served}\n")
