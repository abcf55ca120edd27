"""The configuration of an nginx that writes into one folder only and serves its ``www``."""

from __future__ import annotations

# To be formatted with the folder, the port, and more directives for the http block, "" for none.
NGINX_CONF = """
user root;
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off;
  {more}
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ root {folder}/www; }} }}
}}
"""
