import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { createRemover, type Remover } from './container-removal.ts'
import { dockerRemoval } from './docker.ts'
import { createDockerClient } from './docker-client.ts'

let folder = ''
let closers: (() => unknown)[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gantry-removal-'))
  closers = []
})
afterEach(async () => {
  for (const close of closers.reverse()) await close()
  rmSync(folder, { recursive: true, force: true })
})

/** What an engine answers to one request: its status and its body. */
type Answer = readonly [status: number, body?: object]

/** A remover over an engine that answers as the test says; `asked` lists the requests. */
async function removerOf(
  answer: (ask: string) => Answer | Promise<Answer>,
): Promise<{ readonly remover: Remover; readonly asked: readonly string[] }> {
  const asked: string[] = []
  const handle = async ({ method = '', url = '' }: IncomingMessage, response: ServerResponse): Promise<void> => {
    const ask = `${method} ${url.replace(/^\/v[\d.]+/, '')}`
    if (ask === 'GET /version') return void response.end('{}')
    asked.push(ask)
    const [status, body] = await answer(ask)
    response.writeHead(status).end(body === undefined ? undefined : JSON.stringify(body))
  }
  const server = createServer((request, response) => void handle(request, response))
  const path = join(folder, 'engine.sock')
  await once(server.listen(path), 'listening')
  const client = createDockerClient({ kind: 'socket', path })
  const remover = createRemover(dockerRemoval(client))
  closers.push(async () => {
    await remover.close()
    client.close()
    server.closeAllConnections()
    server.close()
  })
  return { remover, asked }
}

const inProgress: Answer = [409, { message: 'removal of container one is already in progress' }]

test('a container that the engine is removing by itself is gone only when the engine has removed it', async () => {
  const removed = Promise.withResolvers<Answer>()
  const waited = Promise.withResolvers<void>()
  const { remover, asked } = await removerOf((ask) => {
    if (ask.startsWith('DELETE')) return inProgress
    waited.resolve()
    return removed.promise
  })
  let gone: boolean | undefined
  const removing = remover.remove('one').then((answer) => {
    gone = answer
  })
  await waited.promise
  assert.equal(gone, undefined)
  removed.resolve([200, { StatusCode: 137, Error: null }])
  await removing
  assert.equal(gone, true)
  assert.deepEqual(asked, ['DELETE /containers/one?force=1&v=1', 'POST /containers/one/wait?condition=removed'])
})

test('a container that has gone before the wait for its removal begins is gone', async () => {
  const { remover } = await removerOf((ask) => (ask.startsWith('DELETE') ? inProgress : [404, { message: 'No such' }]))
  assert.equal(await remover.remove('one'), true)
})

test('a container whose removal fails in the engine is not gone, and is removed again in the background', async () => {
  const again = Promise.withResolvers<void>()
  let deletions = 0
  const { remover } = await removerOf((ask) => {
    if (!ask.startsWith('DELETE')) return [200, { StatusCode: 137, Error: { Message: 'device or resource busy' } }]
    deletions += 1
    if (deletions === 1) return inProgress
    again.resolve()
    return [204]
  })
  assert.equal(await remover.remove('one'), false)
  await again.promise
})

test('a container that is absent is gone, and one that the engine refuses to remove is not', async () => {
  const { remover } = await removerOf((ask) => (ask.includes('/none?') ? [404, { message: 'No such' }] : [500, {}]))
  assert.equal(await remover.remove('none'), true)
  assert.equal(await remover.remove('one'), false)
})
