import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, mkdirSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { launch, noSandbox, place, runOn, sandboxPlan, text } from './launcher.fixture.ts'

const skip = noSandbox
const folder = join(place, 'egress')
const path = join(folder, 'socket')
const clients = new Set<Socket>()

/* Answers when the other side has ended its sending, with what was sent, turned to capitals. */
const server = createServer({ allowHalfOpen: true }, (client) => {
  const received: Buffer[] = []
  clients.add(client)
  client.on('close', () => clients.delete(client))
  client.on('error', () => undefined)
  client.on('data', (bytes) => received.push(bytes))
  client.on('end', () => client.end(Buffer.concat(received).toString().toUpperCase()))
})
if (skip === false) {
  mkdirSync(folder, { mode: 0o755 })
  await once(server.listen(path), 'listening')
  chmodSync(path, 0o777)
}
after(() => {
  for (const client of clients) client.destroy()
  server.close()
})

const connect = `use IO::Socket::INET; my $s = IO::Socket::INET->new("127.0.0.1:8118") or die "no: $@";`
const perl = (script: string) => ({ steps: [{ argv: ['/usr/bin/perl', '-e', script], env: {} }] as const })

test('a program reaches the host socket through the relay port on its loopback', {
  skip,
}, async () => {
  const launched = await launch(sandboxPlan({}, ['--ro-bind', folder, '/gantry/egress']))
  launched.relay(8118, '/gantry/egress/socket')
  const script = `${connect} print $s "hello" x 20000; shutdown($s, 1); local $/; my $all = <$s>; print length($all), substr($all, 0, 5);`
  const end = await runOn(launched, perl(script))
  assert.equal(text(end.stdout), '100000HELLO', text(end.stderr))
  await launched.dispose()
})

test('the relay serves parallel connections, and connections above its limit wait for a slot', { skip }, async () => {
  const launched = await launch(sandboxPlan({}, ['--ro-bind', folder, '/gantry/egress']))
  launched.relay(8118, '/gantry/egress/socket')
  const open = `my @all; for my $n (1..300) { push @all, IO::Socket::INET->new("127.0.0.1:8118") or die "no: $@"; }`
  const talk =
    'for my $s (@all) { print $s "a"; shutdown($s, 1); } my $got = ""; for my $s (@all) { $got .= <$s>; } print length($got);'
  const end = await runOn(launched, perl(`use IO::Socket::INET; $| = 1; ${open} ${talk}`))
  assert.equal(text(end.stdout), '300', text(end.stderr))
  await launched.dispose()
})

test('without a relay the port refuses connections', { skip }, async () => {
  const launched = await launch(sandboxPlan())
  const end = await runOn(launched, perl(`${connect} print "reached"`))
  assert.equal(text(end.stdout), '')
  assert.match(text(end.stderr), /^no: /)
  await launched.dispose()
})

test('a relay on a port in use fails the run, and disposing the sandbox leaves nothing', { skip }, async () => {
  const launched = await launch(sandboxPlan({}, ['--ro-bind', folder, '/gantry/egress']))
  launched.relay(8118, '/gantry/egress/socket')
  launched.relay(8118, '/gantry/egress/socket')
  await assert.rejects(runOn(launched, perl('print 1')), { code: 'BACKEND_FAILED' })
  assert.deepEqual((await launched.dispose()).left, [])
})
