import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import type { HttpBinding, Tool } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { http } from '../../core/src/backends/http.ts'
import { importOpenapi } from '../src/index.ts'
import { type Replayed, replay, sampleOf, type Value } from './openapi/replay.fixture.ts'

const base = '/api/v1'

function read(name: string): Value {
  return JSON.parse(readFileSync(join(import.meta.dirname, 'openapi', `${name}.json`), 'utf8'))
}

/** A server that holds every request against the document and answers as the document promises. */
async function serve(document: Value) {
  const seen: Replayed[] = []
  const faults: string[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    try {
      const replayed = await replay(document, base, request, Buffer.concat(chunks))
      seen.push(replayed)
      const { answer } = replayed
      if (answer === undefined) response.writeHead(204).end()
      else response.setHeader('content-type', answer.mediaType).end(JSON.stringify(sampleOf(document, answer.schema)))
    } catch (error) {
      faults.push(error instanceof Error ? error.message : String(error))
      response.writeHead(400).end()
    }
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}${base}`
  return { baseUrl, seen, faults, close: () => new Promise((resolve) => server.close(resolve)) }
}

/** Arguments that the input schema allows, all of them. */
function argumentsFor(tool: Tool): Value {
  const schema = tool.inputSchema as Value
  return sampleOf(schema, schema)
}

/** What the server must have read: every argument under the place and the name it has on the wire. */
function expected(tool: Tool, args: Value): { values: Value; body: Value } {
  const { params = {}, body } = tool.backends[0] as HttpBinding
  const placed = Object.entries(params).map(([name, place]) => [`${place.in}.${place.name}`, args[name]])
  const rest = Object.fromEntries(Object.entries(args).filter(([name]) => !Object.hasOwn(params, name)))
  const whole = body?.arg === undefined ? rest : args[body.arg]
  return { values: Object.fromEntries(placed), body: body === undefined ? undefined : whole }
}

for (const [name, count] of [
  ['petstore-3.0', 20],
  ['petstore-3.1', 20],
  ['styles', 10],
] as const) {
  test(`every tool of ${name} calls a real server, which receives exactly the arguments`, async () => {
    const document = read(name)
    const server = await serve(document)
    const { tools, backend, report } = importOpenapi(document, { name: 'api', baseUrl: server.baseUrl })
    assert.deepEqual([tools.length, report.leftOut], [count, []])
    const secrets = Object.fromEntries(
      report.secrets.map((secret) => [secret.name, `value of ${secret.name.slice(4)}`]),
    )
    const gantry = createExecutor({ backends: [http({ ...withoutKind(backend), private: true, tools })], secrets })
    try {
      for (const tool of tools) {
        const args = argumentsFor(tool)
        const result = await gantry.run(`api:${tool.name}`, args)
        assert.deepEqual(server.faults, [], tool.name)
        const warnings = result.warnings.filter(({ code }) => code !== 'DEPRECATED')
        assert.deepEqual([result.status, warnings, result.error?.message], ['ok', [], undefined], tool.name)
        const { operationId, values, body } = server.seen.at(-1) ?? assert.fail('the server saw nothing')
        assert.deepEqual({ operationId, values, body }, { operationId: tool.name, ...expected(tool, args) })
      }
    } finally {
      await gantry.close()
      await server.close()
    }
  })
}

function withoutKind({ name, baseUrl, auth }: ReturnType<typeof importOpenapi>['backend']) {
  return { name, baseUrl, ...(auth === undefined ? {} : { auth }) }
}

test('a document allows no connection: the egress rules decide, whatever servers it names', async () => {
  const document = read('petstore-3.0')
  const server = await serve(document)
  const { tools, backend } = importOpenapi(document, { name: 'api', baseUrl: server.baseUrl })
  const own = { ...withoutKind(backend), tools }
  const ways = [
    createExecutor({ backends: [http(own)] }),
    createExecutor({ backends: [http({ ...own, private: true })], egress: { allow: [] } }),
  ]
  try {
    for (const gantry of ways) {
      const { status, error } = await gantry.run('api:logoutUser', {})
      assert.deepEqual([status, error?.code], ['denied', 'EGRESS_DENIED'])
    }
    assert.deepEqual([server.seen, server.faults], [[], []])
  } finally {
    for (const gantry of ways) await gantry.close()
    await server.close()
  }
})

test('the replaying server refuses what the document does not allow', async () => {
  const server = await serve(read('styles'))
  const json = { 'content-type': 'application/json', authorization: 'Bearer value of token' }
  const refused = async (path: string, init: RequestInit): Promise<string> => {
    assert.equal((await fetch(`${server.baseUrl}${path}`, init)).status, 400)
    return server.faults.pop() ?? ''
  }
  try {
    assert.match(await refused('/elsewhere/7', { method: 'POST', headers: json, body: '{}' }), /body has id/)
    assert.match(
      await refused('/elsewhere/x', { method: 'POST', headers: json, body: '{"id":"a"}' }),
      /path\.id is a number/,
    )
    assert.match(
      await refused('/elsewhere/7?more=1', { method: 'POST', headers: json, body: '{"id":"a"}' }),
      /query more is known/,
    )
    assert.match(
      await refused('/form', { method: 'POST', headers: json, body: '{"a":"b"}' }),
      /application\/json is one of/,
    )
    assert.match(await refused('/query', {}), /credentials/)
    assert.match(await refused('/none', {}), /in the document/)
  } finally {
    await server.close()
  }
})
