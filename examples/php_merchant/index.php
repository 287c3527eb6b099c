<?php
// A merchant in PHP 8 with SQLite, without a library: docs/merchants/protocol.md in one file.
//
//   SHOP_SECRET='whsec_…' SHOP_DATABASE=orders.db PHP_CLI_SERVER_WORKERS=8 php -S 127.0.0.1:8081 index.php
//
// Calls go to /, status questions to /status. An order, its reply and its key are committed together, then answered.
declare(strict_types=1);
const STOCK = ['dosa' => 40, 'vada' => 0];
const TOLERANCE_S = 300;
const SCHEMA = 'CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, quantity INTEGER);
    CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, fingerprint TEXT, status INTEGER, reply TEXT)';

function no(int $status, string $code, string $message): array
{
    return [$status, json_encode(['error' => ['code' => $code, 'message' => $message]], JSON_THROW_ON_ERROR)];
}

const SIGNED = ['HTTP_WEBHOOK_ID', 'HTTP_WEBHOOK_TIMESTAMP', 'HTTP_WEBHOOK_SIGNATURE'];

function verified(string $body): bool
{
    [$id, $stamp, $signature] = array_map(fn (string $name) => $_SERVER[$name] ?? '', SIGNED);
    $good = false;
    foreach (preg_split('/\s+/', trim((string) getenv('SHOP_SECRET'))) as $secret) {
        $key = (string) base64_decode(preg_replace('/\Awhsec_/', '', $secret), true);
        $wanted = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$stamp.$body", $key, true));
        foreach (explode(' ', $signature) as $entry) {
            $good = (strlen($key) >= 24 && hash_equals($wanted, $entry)) || $good; // anyone can sign under an empty key
        }
    }
    $whole = preg_match('/\A[!-\-\/-~]+\z/', $id) && preg_match('/\A\d{1,12}\z/', $stamp);
    return $good && $whole && abs(time() - (int) $stamp) <= TOLERANCE_S;
}

/** Runs `$work` under the key and keeps its answer with it; a key that is known is answered as it was. */
function once(PDO $db, string $key, string $fingerprint, callable $work): array
{
    $db->exec('BEGIN IMMEDIATE'); // a twin waits here until the first has committed
    $found = $db->prepare('SELECT status, reply, fingerprint FROM calls WHERE key = ?');
    $found->execute([$key]);
    if ($row = $found->fetch(PDO::FETCH_NUM)) {
        $db->exec('ROLLBACK');
        $other = $row[2] !== '' && $fingerprint !== '' && $row[2] !== $fingerprint;
        return $other ? no(422, 'key_conflict', 'This key was used for another call.') : [(int) $row[0], $row[1], true];
    }
    [$status, $reply] = $work();
    $db->prepare('INSERT INTO calls VALUES (?, ?, ?, ?)')->execute([$key, $fingerprint, $status, $reply]);
    $db->exec('COMMIT'); // not a byte is sent before this
    return [$status, $reply];
}

function order(PDO $db, array $given): array
{
    ['item' => $item, 'quantity' => $quantity] = $given + ['item' => null, 'quantity' => null];
    if (!is_string($item) || !is_int($quantity) || $quantity < 1 || count($given) !== 2) {
        return no(422, 'invalid_arguments', 'An order has an item and a whole quantity.');
    }
    if ((STOCK[$item] ?? 0) < $quantity) {
        return no(422, 'sold_out', "Sorry, we do not have $quantity of $item left.");
    }
    $db->prepare('INSERT INTO orders VALUES (NULL, ?, ?)')->execute([$item, $quantity]);
    return [200, json_encode(['order_id' => (int) $db->lastInsertId()])];
}

function answer(string $body): array
{
    $key = $_SERVER['HTTP_IDEMPOTENCY_KEY'] ?? null;
    if (!verified($body) || ($key ?? $_SERVER['HTTP_WEBHOOK_ID']) !== $_SERVER['HTTP_WEBHOOK_ID']) {
        return no(401, 'signature_invalid', 'The signature is missing or wrong.');
    }
    $said = json_decode($body, true);
    $db = new PDO('sqlite:' . getenv('SHOP_DATABASE'), options: [PDO::ATTR_TIMEOUT => 10]);
    $db->exec(SCHEMA);
    if ($_SERVER['REQUEST_URI'] === '/status' && is_string($said['idempotency_key'] ?? null)) {
        [$status, $reply] = once($db, $said['idempotency_key'], '', fn () => no(410, 'void', 'Ruled out before it came.'));
        return [200, $status === 200 ? "{\"status\":\"committed\",\"result\":$reply}" : '{"status":"void"}'];
    }
    if (!is_array($said['arguments'] ?? null) || !is_string($said['tool'] ?? null)) {
        return no(400, 'malformed_call', 'A call has a tool and arguments.');
    }
    if ($said['tool'] === 'count_orders') {
        return [200, json_encode(['orders' => $db->query('SELECT count(*) FROM orders')->fetchColumn()])];
    } elseif ($key === null) {
        return no(400, 'malformed_call', 'A call that changes something carries an Idempotency-Key.');
    }
    $work = $said['tool'] === 'place_order' ? order(...) : fn () => no(404, 'unknown_tool', 'There is no such tool.');
    return once($db, $key, hash('sha256', $body), fn () => $work($db, $said['arguments']));
}

try {
    [$status, $reply, $replayed] = answer(file_get_contents('php://input')) + [2 => false];
} catch (Throwable $wrong) {
    error_log((string) $wrong);
    [$status, $reply, $replayed] = no(500, 'merchant_error', 'The shop failed and stored nothing.') + [2 => false];
}
http_response_code($status);
header('Content-Type: application/json');
$replayed && header('Idempotent-Replayed: true');
echo $reply;
