// A service in a separate process, its client, and what happens to calls when that process is killed.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Client, createClient, ToolError } from '@gantry/client'

const gantry = join(dirname(dirname(import.meta.dirname)), 'packages/gantry/bin/gantry.mjs')
const config = join(import.meta.dirname, 'gantry.config.mjs')
const data = mkdtempSync(join(tmpdir(), 'gantry-example-'))

/** Starts `gantry serve` and waits for the line `ready`. */
async function serve(port: string): Promise<{ service: ChildProcess; url: string }> {
  const args = [gantry, 'serve', '--config', config, '--data', data, '--port', port]
  const env = { ...process.env, GANTRY_DATA: data, GANTRY_LOG: 'silent' }
  const service = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  let printed = ''
  for await (const text of service.stdout.setEncoding('utf8')) {
    printed += text
    if (/^ready$/m.test(printed)) break
  }
  return { service, url: /listening on (\S+)/.exec(printed)?.[1] ?? '' }
}

function ended(service: ChildProcess): Promise<number | string> {
  return new Promise((resolve) => service.on('exit', (code, signal) => resolve(code ?? signal ?? '')))
}

/** Submits a call and waits until its tool reports that it has started. */
async function begin(client: Client, tool: string): Promise<string> {
  const { callId } = await client.submit(tool)
  for await (const event of client.events(callId)) if (event.kind === 'progress') break
  return callId
}

const first = await serve('0')
const key = readFileSync(join(data, 'key'), 'utf8').trim()
// The client retries while the service is unavailable.
const client = createClient({ url: first.url, key, retries: 20 })

const sum = await client.call('demo:add', { a: 5, b: 3 }, { idempotencyKey: 'sum-1' })
console.log('call', sum.status, sum.output)

for await (const event of client.stream('demo:countdown', { from: 2, delayMs: 10 })) {
  if (event.kind === 'progress') console.log('progress', `${event.progress}/${event.total}`, event.message)
  if (event.kind === 'chunk') console.log('chunk', event.data)
  if (event.kind === 'done') console.log('done', event.result.output)
}

const again = await client.call('demo:add', { a: 5, b: 3 }, { idempotencyKey: 'sum-1' })
console.log('same key', again.callId === sum.callId ? 'the same call' : 'another call')
try {
  await client.call('demo:add', { a: 1, b: 1 }, { idempotencyKey: 'sum-1' })
} catch (error) {
  if (ToolError.is(error)) console.log('same key, other arguments', error.code)
}

const { callId } = await client.submit('demo:sleep', { ms: 60_000 })
await client.cancel(callId)
for await (const event of client.events(callId)) if (event.kind === 'error') console.log('cancelled', event.error.code)

const report = await begin(client, 'report:build')
const letter = await begin(client, 'mail:send')
const killed = ended(first.service)
first.service.kill('SIGKILL')
console.log('killed', await killed)
const second = await serve(new URL(first.url).port)
for await (const event of client.events(report)) {
  if (event.kind === 'done') console.log('report', event.result.status, event.result.output, 'in a second attempt')
}
for await (const event of client.events(letter)) {
  if (event.kind === 'error') console.log('mail', event.result.status, event.error.code)
}

const drained = ended(second.service)
second.service.kill('SIGTERM')
console.log('stopped', await drained)
rmSync(data, { recursive: true })
