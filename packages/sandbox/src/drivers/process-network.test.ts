import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before } from 'node:test'
import { attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import { textOf } from '@gantry/conformance/internal/runtime-case'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import type { SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createProcessRuntime } from './process.ts'

const runtime = createProcessRuntime()
const allowed = createServer((_request, response) => response.end('reached'))
const other = createServer((_request, response) => response.end('other'))
const listen = (server: typeof allowed) => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const originOf = (server: typeof allowed) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
let egress: Egress
let hits = 0

before(async () => {
  await Promise.all([listen(allowed), listen(other)])
  other.on('request', () => {
    hits += 1
  })
  const rules = [allowed, other].map((server) => ({ origin: originOf(server), private: true }))
  egress = createEgressGuard({ allow: rules })
})
after(async () => {
  await runtime.close()
  await egress.close()
  allowed.close()
  other.close()
})

function spec(): Partial<SandboxSpec> {
  return {
    limits: attackLimits,
    network: { allow: [originOf(allowed)] },
    dial: { egress, owner: 'sandbox:test' },
  }
}

const fetchPython = (url: string) =>
  `import urllib.request\ntry:\n  print(urllib.request.urlopen("${url}", timeout=5).read().decode())\nexcept Exception as e:\n  print("refused")`

sandboxTest('a sandbox reaches its allowed origins through the proxy, from Python and from JavaScript', async () => {
  const url = originOf(allowed)
  const python = await runOnce(
    runtime,
    { program: { kind: 'code', language: 'python', code: fetchPython(url) } },
    spec(),
  )
  assert.equal(textOf(python.stdout.bytes), 'reached\n', textOf(python.stderr.bytes))
  const code = `console.log(await (await fetch("${url}")).text())`
  const javascript = await runOnce(runtime, { program: { kind: 'code', language: 'javascript', code } }, spec())
  assert.equal(textOf(javascript.stdout.bytes), 'reached\n', textOf(javascript.stderr.bytes))
})

sandboxTest(
  'a sandbox cannot reach an origin outside its network list, even when the egress rules allow it',
  async () => {
    const code = fetchPython(originOf(other))
    const outcome = await runOnce(runtime, { program: { kind: 'code', language: 'python', code } }, spec())
    assert.equal(textOf(outcome.stdout.bytes), 'refused\n')
    assert.equal(hits, 0)
  },
)

sandboxTest('a sandbox has no network but the proxy: no host loopback, no route, no DNS', async () => {
  const { port } = other.address() as AddressInfo
  const code = `import socket
found = []
for target in [("127.0.0.1", ${port}), ("8.8.8.8", 53), ("169.254.169.254", 80)]:
  try:
    socket.create_connection(target, timeout=2); found.append(target)
  except OSError: pass
try:
  socket.getaddrinfo("example.com", 80); found.append("dns")
except OSError: pass
print(found)`
  const outcome = await runOnce(runtime, { program: { kind: 'code', language: 'python', code } }, spec())
  assert.equal(textOf(outcome.stdout.bytes), '[]\n', textOf(outcome.stderr.bytes))
  assert.equal(hits, 0)
})
