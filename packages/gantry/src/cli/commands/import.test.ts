import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { parseJson } from '@gantry/core/internal/json/parse'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

const yaml = `openapi: 3.0.3
info: { title: "My \\u001b[31mPets!", version: 1.0.0 }
servers: [{ url: /api }]
security: [{ key: [] }]
components:
  securitySchemes:
    key: { type: apiKey, in: header, name: X-Key }
paths:
  /pets:
    get:
      operationId: list
      tags: [pets]
      parameters:
        - { name: limit, in: query, schema: { type: integer, maximum: 9223372036854775807 } }
      responses: { 200: { description: ok } }
    post:
      operationId: create
      tags: [shop]
      responses: { 201: { description: ok } }
  /elsewhere:
    servers: [{ url: https://other.example }]
    get: { operationId: away, responses: {} }
`

/** A folder of its own with the document in it, and the command there. */
function setUp() {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-import-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'pets.yaml'), yaml)
  const gantry = async (...words: readonly string[]) => {
    const io = keptIo({ folder })
    const code = await runCommandLine(['import', 'openapi', ...words], io)
    return { code, ...io.printed }
  }
  // As strictly as a configuration is read.
  const read = (file: string) => parseJson(readFileSync(join(folder, file), 'utf8')) as ReturnType<typeof JSON.parse>
  return { folder, gantry, read }
}

const base = ['--base-url', 'https://api.example.com']

test('import writes a file of tools, and its report names the remaining steps', async () => {
  const { gantry, read } = setUp()
  const { code, out, err } = await gantry('pets.yaml', '--name', 'pets', ...base)
  assert.deepEqual([code, err], [0, ''])
  const { backend, tools } = read('pets.tools.json')
  const key = { type: 'header', name: 'X-Key', value: 'secret:pets_key' }
  assert.deepEqual(backend, { kind: 'http', name: 'pets', baseUrl: 'https://api.example.com', auth: key })
  assert.deepEqual(
    tools.map(({ name }: { name: string }) => name),
    ['list', 'create'],
  )
  assert.match(out, /^Imported 2 tools of pets at https:\/\/api\.example\.com\.\nWritten to \.\/pets\.tools\.json\.\n/)
  assert.match(
    out,
    /Left out \(1\):\n {2}GET \/elsewhere: it is at "https:\/\/other\.example", outside the base URL; allow its origin with --origin or the option origins\n/,
  )
  assert.match(out, /Secrets to set \(1\):\n {2}pets_key: an API key for the header X-Key \(key\)\n/)
  assert.match(out, /- {"kind":"http","name":"pets","tools":"\.\/pets\.tools\.json"}\n/)
  assert.match(out, /"pets_key": {"env":"PETS_KEY"}\n$/)
})

test('the default file name contains only safe characters, and text of the document is escaped for the terminal', async () => {
  const { gantry, folder } = setUp()
  const { code, out } = await gantry('pets.yaml', ...base)
  assert.equal(code, 0)
  assert.ok(readdirSync(folder).includes('my-31mpets.tools.json'))
  assert.ok(!out.includes('\x1b'))
})

test('--tag and --operation may be repeated', async () => {
  const { gantry } = setUp()
  const json = async (...words: readonly string[]) => {
    const { out } = await gantry('pets.yaml', '--force', '--json', ...base, ...words)
    return JSON.parse(out).report
  }
  assert.equal((await json('--tag', 'pets')).imported, 1)
  assert.equal((await json('--tag', 'pets', '--tag', 'shop')).imported, 2)
  assert.equal((await json('--operation', 'cre*', '--operation', 'list')).imported, 2)
  assert.equal((await json('--operation', 'cre*')).notChosen, 2)
})

test('an existing file is kept unless --force is given', async () => {
  const { gantry, folder, read } = setUp()
  writeFileSync(join(folder, 'mine.json'), '"mine"')
  const words = ['pets.yaml', '--out', 'mine.json', ...base]
  const refused = await gantry(...words)
  assert.equal(refused.code, 2)
  assert.match(refused.err, /exists; --force replaces it/)
  assert.equal(read('mine.json'), 'mine')
  assert.equal((await gantry(...words, '--force')).code, 0)
  assert.equal(read('mine.json').tools.length, 2)
})

test('an invalid source exits with 2, a reason and no file', async () => {
  const { gantry, folder } = setUp()
  writeFileSync(join(folder, 'old.json'), '{"swagger":"2.0"}')
  writeFileSync(join(folder, 'bad.json'), '{"openapi":')
  writeFileSync(join(folder, 'bad.yaml'), 'a: b: c')
  const before = readdirSync(folder)
  for (const [words, said] of [
    [['pets.yaml'], /give the base URL/],
    [['pets.yaml', ...base, '--tag', 'none'], /No operation .* 3 operations were not chosen/],
    [['pets.yaml', ...base, '--name', 'a b'], /\/name/],
    [['old.json'], /Swagger 2\.0/],
    [['bad.json'], /bad\.json is not valid JSON/],
    [['bad.yaml'], /bad\.yaml is not valid YAML/],
    [['none.yaml'], /none\.yaml cannot be read/],
    [['.'], /is not a regular file/],
    [['https://user:pass@example.com/'], /holds credentials/],
    [[], /needs <source>/],
  ] as const) {
    const { code, err } = await gantry(...words)
    assert.equal(code, 2, err)
    assert.match(err, said)
  }
  assert.deepEqual(readdirSync(folder), before)
})

test('import fetches a URL from its own host only, and from a private address only with --private', async () => {
  const { gantry, read } = setUp()
  const asked: string[] = []
  const other = createServer((_request, response) => response.end(yaml))
  const server = createServer(({ url = '' }, response) => {
    asked.push(url)
    if (url === '/away') response.writeHead(302, { location: `http://127.0.0.1:${portOf(other)}/` }).end()
    else if (url === '/none') response.writeHead(404).end()
    else response.end(yaml)
  })
  await Promise.all([server, other].map((one) => new Promise<void>((done) => void one.listen(0, '127.0.0.1', done))))
  const origin = `http://127.0.0.1:${portOf(server)}`
  try {
    const refused = await gantry(`${origin}/openapi.yaml`)
    assert.equal(refused.code, 3)
    assert.match(
      refused.err,
      /127\.0\.0\.1 leads to a private or reserved address\. If that is intended, add --private\.\n$/,
    )
    assert.doesNotMatch(refused.err, /egress\.allow/)
    assert.deepEqual(asked, [])
    const { code, err } = await gantry(`${origin}/openapi.yaml`, '--private', '--name', 'pets')
    assert.equal(code, 0, err)
    assert.equal(read('pets.tools.json').backend.baseUrl, `${origin}/api`)
    const away = await gantry(`${origin}/away`, '--private', '--name', 'away')
    assert.equal(away.code, 3)
    assert.match(away.err, /Only the host that the URL names is asked/)
    assert.doesNotMatch(away.err, /egress\.allow|--private/)
    const missing = await gantry(`${origin}/none`, '--private', '--name', 'none')
    assert.equal(missing.code, 1)
    assert.match(missing.err, /answered with the status 404/)
  } finally {
    await Promise.all([server, other].map((one) => new Promise((done) => one.close(done))))
  }
})

function portOf(server: ReturnType<typeof createServer>): number {
  return (server.address() as AddressInfo).port
}
