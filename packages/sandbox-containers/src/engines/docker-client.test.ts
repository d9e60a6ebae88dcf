import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createPlainServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createDockerClient, type DockerClient, DockerError } from './docker-client.ts'

let folder = ''
let closers: (() => unknown)[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gantry-client-'))
  closers = []
})
afterEach(async () => {
  for (const close of closers.reverse()) await close()
  rmSync(folder, { recursive: true, force: true })
})

const signal = AbortSignal.timeout(20_000)

function clientOf(path: string): DockerClient {
  const client = createDockerClient({ kind: 'socket', path })
  closers.push(client.close)
  return client
}

/** A server on a socket, which answers as the test says. */
async function serving(answer: RequestListener): Promise<DockerClient> {
  const server: Server = createServer(answer)
  const path = join(folder, 'engine.sock')
  await once(server.listen(path), 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return clientOf(path)
}

/** That it is RUNTIME_UNAVAILABLE, with what is wrong and what to do. */
function isUnavailable(reason: RegExp, remedy: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'RUNTIME_UNAVAILABLE')
    const details = error.details as { readonly reason: string; readonly remedy: string }
    assert.match(details.reason, reason)
    assert.match(details.remedy, remedy)
    return true
  }
}

test('a socket that does not exist is unreachable, with the setting to change', async () => {
  const path = join(folder, 'none.sock')
  const client = clientOf(path)
  const wrong = isUnavailable(/unix:\/\/.*none\.sock is unreachable \(ENOENT\)/, /`runtimes\.docker\.socket`/)
  await assert.rejects(client.call('GET', '/info', { signal }), wrong)
  await assert.rejects(client.hijack('/containers/x/attach', signal), wrong)
  await assert.rejects(
    client.events('/events', () => undefined, signal),
    wrong,
  )
})

test('a socket whose server has ended is refused, with the remedy to start the engine', async () => {
  const path = join(folder, 'dead.sock')
  const server = createPlainServer()
  await once(server.listen(path), 'listening')
  await new Promise((resolve) => server.close(resolve))
  await assert.rejects(
    clientOf(path).call('GET', '/info', { signal }),
    isUnavailable(/unreachable/, /Start the engine/),
  )
})

test('a socket of another protocol is named as no Docker engine, with the setting to change', async () => {
  const path = join(folder, 'other.sock')
  // The first frame of HTTP/2, with which containerd answers.
  const server = createPlainServer((socket) => socket.end(Buffer.from('000006040000000000000500004000', 'hex')))
  await once(server.listen(path), 'listening')
  closers.push(() => server.close())
  const wrong = isUnavailable(
    /^What answers at unix:\S+other\.sock is no Docker engine\.$/,
    /`runtimes\.docker\.socket`/,
  )
  await assert.rejects(clientOf(path).call('GET', '/info', { signal }), wrong)
})

test('a port without a server is unreachable by its address', async () => {
  const server = createPlainServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  await new Promise((resolve) => server.close(resolve))
  const client = createDockerClient({ kind: 'tcp', host: '127.0.0.1', port: address.port })
  closers.push(client.close)
  const wrong = isUnavailable(
    new RegExp(`tcp://127\\.0\\.0\\.1:${address.port} is unreachable \\(ECONNREFUSED\\)`),
    /Start the engine/,
  )
  await assert.rejects(client.call('GET', '/info', { signal }), wrong)
})

test('an engine that never answers is given up after the time given', async () => {
  const client = await serving(() => undefined)
  await assert.rejects(
    client.call('GET', '/info', { signal, waitMs: 100 }),
    isUnavailable(/did not answer within 0\.1 s/, /restart it if it hangs/),
  )
})

test('an engine that stops in the middle of an answer is given up after the time given', async () => {
  const client = await serving((_, response) => void response.write('{"half":'))
  await assert.rejects(
    client.call('GET', '/info', { signal, waitMs: 100 }),
    isUnavailable(/did not answer within 0\.1 s/, /restart it if it hangs/),
  )
})

test('a caller that gives up gets the reason of its own signal, while the engine says nothing', async () => {
  const heard = Promise.withResolvers<void>()
  const client = await serving(() => heard.resolve())
  const enough = new AbortController()
  const asked = client.call('GET', '/info', { signal: enough.signal })
  await heard.promise
  enough.abort(new Error('enough'))
  await assert.rejects(asked, { message: 'enough' })
})

test('an answer that says no is an error with its status and the message in one bounded line', async () => {
  const client = await serving((_, response) => {
    response.writeHead(409).end(JSON.stringify({ message: `no\n\tsuch ${'x'.repeat(1_000)}` }))
  })
  await assert.rejects(client.call('GET', '/info', { signal }), (error) => {
    assert.ok(error instanceof DockerError)
    assert.equal(error.status, 409)
    assert.match(error.message, /^no such x+$/)
    assert.equal(error.message.length, 500)
    return true
  })
})

test('an answer without end is not read without end', async () => {
  const client = await serving((_, response) => {
    const more = (): void => {
      while (response.writable && response.write(Buffer.alloc(65_536, 32)));
      response.once('drain', more)
    }
    more()
  })
  await assert.rejects(client.call('GET', '/info', { signal }), /longer than 16 MiB/)
})

test('a connection that the engine answers instead of handing it over is an error', async () => {
  const client = await serving((_, response) => response.writeHead(404).end('{"message":"No such container: x"}'))
  await assert.rejects(client.hijack('/containers/x/attach', signal), { message: 'No such container: x', status: 404 })
})

test('a file of TLS that is missing or is no certificate is named, with the setting to change', async () => {
  const [missing, text] = [join(folder, 'missing.pem'), join(folder, 'text.pem')]
  writeFileSync(text, 'no certificate')
  const open = (caFile: string) => async () => {
    createDockerClient({ kind: 'tcp', host: 'engine.test', port: 2376, tls: { caFile, certFile: text, keyFile: text } })
  }
  await assert.rejects(
    open(missing),
    isUnavailable(
      /TLS file \S+missing\.pem of Docker at tcp:\S+ cannot be read \(ENOENT\)/,
      /`runtimes\.docker\.host\.tls`/,
    ),
  )
  await assert.rejects(open(text), isUnavailable(/text\.pem/, /PEM files in `runtimes\.docker\.host\.tls`/))
})
