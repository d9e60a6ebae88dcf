import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, before } from 'node:test'
import { attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import { textOf } from '@gantry/conformance/internal/runtime-case'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import type { Outcome, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { testCertificate } from '../../../core/src/egress/egress.fixture.ts'
import { createProcessRuntime } from './process.ts'
import { echo, finder, inMemory, masked, recordingServer, serverCertificate } from './process-broker.fixture.ts'

/** Made anew, so that it is in no file of this repository. */
const secret = `canary-${Buffer.from(crypto.getRandomValues(new Uint8Array(18))).toString('base64url')}`
const placeholderForm = /gantry-placeholder-[0-9a-f]{32}/
const runtime = createProcessRuntime()
const waiting = Promise.withResolvers<string>()
const scanned = Promise.withResolvers<void>()
let mine: Awaited<ReturnType<typeof recordingServer>>
let other: Awaited<ReturnType<typeof recordingServer>>
let egress: Egress

before(async () => {
  mine = await recordingServer((request, response) => {
    const [path, placeholder = ''] = request.path.split('?')
    if (path === '/repository.git/info/refs' && request.headers.authorization === undefined) {
      return void response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
    }
    if (path !== '/wait') return echo(request, response)
    waiting.resolve(placeholder)
    void scanned.promise.then(() => response.end('go on'))
  })
  other = await recordingServer(echo)
  const allow = [mine, other].map(({ origin }) => ({ origin, private: true }))
  egress = createEgressGuard({ allow, ca: testCertificate })
})
after(async () => {
  await runtime.close()
  await egress.close()
  mine.close()
  other.close()
})

function spec(): Partial<SandboxSpec> {
  const credentials = [{ variable: 'TOKEN', value: () => secret, hosts: [mine.origin] }]
  const dial = { egress, owner: 'sandbox:test', credentials }
  return { limits: attackLimits, network: { allow: [mine.origin, other.origin] }, dial }
}

async function inside(program: SandboxJob['program'], more: Partial<SandboxJob> = {}): Promise<Outcome> {
  const files = new Map([['server.pem', serverCertificate]])
  const outcome = await runOnce(runtime, { program, files, ...more }, spec())
  assert.ok(!JSON.stringify([textOf(outcome.stdout.bytes), textOf(outcome.stderr.bytes)]).includes(secret))
  return outcome
}

const script = (text: string): SandboxJob['program'] => ({ kind: 'script', script: text })
const python = (code: string): SandboxJob['program'] => ({ kind: 'code', language: 'python', code })

sandboxTest('the secret appears nowhere in the sandbox, while its origin receives it', async () => {
  mine.requests.length = 0
  const code = `${finder}
import os, urllib.request
request = urllib.request.Request("${mine.origin}/api", headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
with urllib.request.urlopen(request, timeout=10) as response:
  answer = str(response.headers) + response.read().decode()
open("/work/answer.txt", "w").write(answer)
search()
urllib.request.urlopen("${mine.origin}/wait?" + os.environ["TOKEN"], timeout=10).read()
print(json.dumps({"found": found, "read": read, "answer": answer}))`
  const running = inside(python(code), {
    stdin: masked({ secret, start: secret.slice(0, 20), ends: secret.slice(-12) }),
  })
  const placeholder = await waiting.promise
  // Only root may look into a sandbox from outside.
  const outside = process.getuid?.() === 0 ? [secret, placeholder].map((text) => inMemory(text, placeholder)) : []
  const host = commandLinesWith(secret)
  scanned.resolve()
  const outcome = await running
  const { found, read, answer } = JSON.parse(textOf(outcome.stdout.bytes) || textOf(outcome.stderr.bytes))
  assert.deepEqual(found, { secret: [], start: [], ends: [] })
  assert.ok(read.memory > 10 && read.files > 10 && read.bytes > 1_000_000, JSON.stringify(read))
  assert.ok(answer.includes(placeholder), answer)
  // 76: nor does a command line or an environment of the host hold it.
  assert.deepEqual(host, [])
  const [seen, control] = outside
  assert.deepEqual(seen?.places ?? [], [])
  if (control !== undefined) assert.ok(control.processes >= 2 && control.places.length >= 1, JSON.stringify(control))
  assert.equal(mine.requests[0]?.headers.authorization, `Bearer ${secret}`)
})

function commandLinesWith(text: string): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.filter((pid) => ['cmdline', 'environ'].some((name) => read(`/proc/${pid}/${name}`).includes(text)))
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

sandboxTest('control: the search finds a planted secret in a variable, in memory and in a file', async () => {
  const code = `${finder}
import os
value = os.environ["PLANTED"].replace("X", "")
open("/work/planted", "w").write(value)
search()
print(json.dumps(found["planted"]))`
  const planted = `p1anted-${crypto.randomUUID()}`
  const env = { PLANTED: `${planted.slice(0, 9)}X${planted.slice(9)}`, WHOLE: planted }
  const outcome = await inside(python(code), { stdin: masked({ planted }), env })
  const places: string[] = JSON.parse(textOf(outcome.stdout.bytes))
  assert.ok(places.includes('/work/planted') && places.some((place) => place.startsWith('memory of ')), String(places))
})

sandboxTest('another origin receives the placeholder over end-to-end TLS with its own certificate', async () => {
  other.requests.length = 0
  const outcome = await inside(
    script(`curl -sS --cacert server.pem -H "Authorization: Bearer $TOKEN" ${other.origin}/; echo; echo "$TOKEN"`),
  )
  const [answer = '', placeholder = ''] = textOf(outcome.stdout.bytes).split('\n')
  assert.match(placeholder, placeholderForm)
  assert.equal(other.requests[0]?.headers.authorization, `Bearer ${placeholder}`, textOf(outcome.stderr.bytes))
  assert.ok(answer.includes(placeholder))
  // The certificate of the sandbox's authority is not what this host shows.
  const refused = await inside(script(`curl -sS ${other.origin}/`))
  assert.match(textOf(refused.stderr.bytes), /certificate/i)
})

sandboxTest('the trace of curl contains no part of the secret', async () => {
  mine.requests.length = 0
  const outcome = await inside(script(`curl -sS --trace-ascii - -u "x-token:$TOKEN" ${mine.origin}/`))
  const trace = textOf(outcome.stdout.bytes)
  assert.match(trace, /Recv header/)
  const basic = Buffer.from(`x-token:${secret}`).toString('base64')
  assert.ok(!trace.includes(secret.slice(0, 14)) && !trace.includes(basic.slice(12, 40)), trace)
  assert.equal(mine.requests[0]?.headers.authorization, `Basic ${basic}`)
})

sandboxTest('Python, Node and git trust the CA certificates of the sandbox', async () => {
  mine.requests.length = 0
  const fetched = `const headers = { authorization: 'Bearer ' + process.env.TOKEN }
const ask = async (n) => (await fetch("${mine.origin}/" + n, { headers })).status
console.log(await ask(1), await ask(2))`
  const node = await inside({ kind: 'code', language: 'javascript', code: fetched })
  assert.equal(textOf(node.stdout.bytes), '200 200\n', textOf(node.stderr.bytes))
  const connection = `import http.client, os, ssl
host, port = "${mine.origin}"[8:].split(":")
proxy = http.client.HTTPConnection("127.0.0.1", 3128)
proxy.set_tunnel(host, int(port))
proxy.connect()
proxy.sock = ssl.create_default_context().wrap_socket(proxy.sock, server_hostname=host)
for n in range(3):
  proxy.request("GET", "/%d" % n, headers={"X-Api-Key": os.environ["TOKEN"]})
  print(proxy.getresponse().read().decode().count("gantry-placeholder"))`
  const kept = await inside(python(connection))
  assert.equal(textOf(kept.stdout.bytes), '1\n1\n1\n', textOf(kept.stderr.bytes))
  assert.deepEqual(
    mine.requests.splice(0).map(({ headers }) => headers.authorization ?? headers['x-api-key']),
    [...[`Bearer ${secret}`, `Bearer ${secret}`], ...[secret, secret, secret]],
  )
  const url = mine.origin.replace('https://', 'https://x-access-token:$TOKEN@')
  const git = await inside(script(`if command -v git; then git ls-remote "${url}/repository.git" 2>&1; fi`))
  if (!textOf(git.stdout.bytes).startsWith('/')) return
  const basic = `Basic ${Buffer.from(`x-access-token:${secret}`).toString('base64')}`
  assert.ok(
    mine.requests.some(({ headers }) => headers.authorization === basic),
    textOf(git.stdout.bytes),
  )
})
