/** Receivers in several languages. docs/receiving.md is generated from them, and a test runs them. */
export const programs = [
  {
    name: 'Node.js',
    code: `import express from 'express';
import { webhookReceiver } from 'express-model-gateway/receiver';

const app = express();
app.post(
  '/hooks',
  webhookReceiver({
    secret: process.env.WEBHOOK_SECRET ?? '',
    async onEvent(event) {
      console.log(event.id, event.type, event.data); // the same event may come again: remember its id
    },
  }),
);
app.listen(4000);`,
  },
  {
    name: 'Python',
    code: `import hashlib
import hmac
import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ["WEBHOOK_SECRET"].encode()


def is_signed(body: bytes, signature: str) -> bool:
    expected = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


class Hooks(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not is_signed(body, self.headers.get("x-service-signature", "")):
            return self.reply(401, {"error": "the signature is invalid"})
        event = json.loads(body)
        print(event["id"], event["type"], event["data"], flush=True)
        self.reply(200, {"received": True})

    def reply(self, status, answer):
        payload = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


HTTPServer(("127.0.0.1", 4000), Hooks).serve_forever()`,
  },
  {
    name: 'Go',
    code: `package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

type event struct {
	ID   string          ${'`'}json:"id"${'`'}
	Type string          ${'`'}json:"type"${'`'}
	Data json.RawMessage ${'`'}json:"data"${'`'}
}

func isSigned(body []byte, signature, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	return hmac.Equal([]byte(expected), []byte(signature))
}

func reply(w http.ResponseWriter, status int, answer map[string]any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

func main() {
	secret := os.Getenv("WEBHOOK_SECRET")
	http.HandleFunc("/hooks", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			reply(w, 400, map[string]any{"error": "the body did not arrive whole"})
			return
		}
		if !isSigned(body, r.Header.Get("x-service-signature"), secret) {
			reply(w, 401, map[string]any{"error": "the signature is invalid"})
			return
		}
		var received event
		if err := json.Unmarshal(body, &received); err != nil {
			reply(w, 400, map[string]any{"error": "the body is not JSON"})
			return
		}
		fmt.Println(received.ID, received.Type, string(received.Data))
		reply(w, 200, map[string]any{"received": true})
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:4000", nil))
}`,
  },
  {
    name: 'Java',
    code: String.raw`import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Hooks {
  static final byte[] SECRET = System.getenv("WEBHOOK_SECRET").getBytes(StandardCharsets.UTF_8);

  static boolean isSigned(byte[] body, String signature) throws GeneralSecurityException {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(SECRET, "HmacSHA256"));
    String expected = "sha256=" + HexFormat.of().formatHex(mac.doFinal(body));
    return MessageDigest.isEqual(expected.getBytes(StandardCharsets.UTF_8), signature.getBytes(StandardCharsets.UTF_8));
  }

  static void receive(HttpExchange exchange) throws IOException {
    byte[] body = exchange.getRequestBody().readAllBytes();
    String signature = exchange.getRequestHeaders().getFirst("x-service-signature");
    try {
      if (signature == null || !isSigned(body, signature)) {
        reply(exchange, 401, "{\"error\":\"the signature is invalid\"}");
        return;
      }
    } catch (GeneralSecurityException error) {
      throw new IOException(error);
    }
    System.out.println(new String(body, StandardCharsets.UTF_8)); // parse it with the JSON library that you use
    reply(exchange, 200, "{\"received\":true}");
  }

  static void reply(HttpExchange exchange, int status, String answer) throws IOException {
    byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("content-type", "application/json");
    exchange.sendResponseHeaders(status, bytes.length);
    exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  public static void main(String[] args) throws IOException {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 4000), 0);
    server.createContext("/hooks", Hooks::receive);
    server.start();
  }
}`,
  },
  {
    name: 'PHP',
    code: `<?php
// php -S 127.0.0.1:4000 hooks.php
$body = file_get_contents('php://input');
$expected = 'sha256=' . hash_hmac('sha256', $body, getenv('WEBHOOK_SECRET'));
header('content-type: application/json');

if (!hash_equals($expected, $_SERVER['HTTP_X_SERVICE_SIGNATURE'] ?? '')) {
    http_response_code(401);
    echo json_encode(['error' => 'the signature is invalid']);
    exit;
}
$event = json_decode($body, true);
error_log($event['id'] . ' ' . $event['type'] . ' ' . json_encode($event['data']));
echo json_encode(['received' => true]);`,
  },
];
