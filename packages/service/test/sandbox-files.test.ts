import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ArtifactRef, Identity, JsonObject, Result } from '@gantry/contract'
import { builtinTools } from '@gantry/tools'
import { createHttpServer } from '../src/http/server.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { databaseEngines, pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator, type ServiceSite } from './service-site.fixture.ts'

const colleague: Identity = { ...operator, principal: 'colleague' }
// The same principal name in another tenant: only the tenant distinguishes them.
const eve: Identity = { ...operator, tenant: 'umbrella' }
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

/** Writes a table, a picture and its copy, a small text, small binary data and a large text. */
const making = `
import base64
picture = base64.b64decode('${png.toString('base64')}')
open('plot.png', 'wb').write(picture)
open('same.png', 'wb').write(picture)
open('table.csv', 'w').write('n,square\\n1,1\\n2,4\\n')
open('note.txt', 'w').write('short')
open('odd.bin', 'wb').write(bytes([255, 0]))
open('long.txt', 'w').write('x' * 20000)
print('made')
`

function openSite(t: TestContext, open: (t: TestContext) => Promise<Database>): Promise<ServiceSite> {
  return openServiceSite(t, open, { tools: builtinTools(), runtimes: { pool: false } })
}

async function ok(site: ServiceSite, tool: string, args: JsonObject, as = operator): Promise<Result> {
  const { outcome } = await site.call(tool, args, as)
  assert.deepEqual([outcome.status, outcome.error, outcome.warnings], ['ok', undefined, []], tool)
  return outcome
}

/** The output, untyped. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
const outputOf = ({ output }: Result): any => output

for (const [engine, open] of Object.entries(databaseEngines)) {
  test(`${engine}: pictures, tables and large files of a program become artifacts, and small files stay in the output`, async (t) => {
    const site = await openSite(t, open)
    const made = await ok(site, 'code:run', { language: 'python', code: making })
    const { files, stdout } = outputOf(made)
    assert.equal(stdout, 'made\n')
    assert.equal(files['note.txt'], 'short')
    assert.deepEqual(files['odd.bin'], { base64: '/wA=' })
    const types = Object.fromEntries(made.artifacts.map(({ name, mimeType }) => [name, mimeType]))
    assert.deepEqual(types, { 'long.txt': 'text/plain', 'plot.png': 'image/png', 'table.csv': 'text/csv' })
    assert.deepEqual(files['same.png'], files['plot.png'], 'the same content is kept once')
    assert.deepEqual(
      made.effects.map((effect) => effect.kind === 'file' && effect.artifact.id).sort(),
      made.artifacts.map(({ id }) => id).sort(),
    )
    const idOf = (name: string): string =>
      made.artifacts.find((artifact: ArtifactRef) => artifact.name === name)?.id ?? ''
    assert.deepEqual(files['table.csv'], { artifact: idOf('table.csv') })
    const read = outputOf(await ok(site, 'files:get', { id: idOf('plot.png') }))
    assert.equal(read.base64, png.toString('base64'))

    const again = await ok(site, 'shell:run', {
      script: 'wc -l < in/table.csv; cksum < in/plot.png > sum.txt',
      files: { 'in/table.csv': { artifact: idOf('table.csv') }, 'in/plot.png': { artifact: idOf('plot.png') } },
    })
    assert.equal(outputOf(again).stdout.trim(), '3')
    assert.deepEqual(Object.keys(outputOf(again).files), ['sum.txt'], 'files that were only read are not in the output')
  })

  test(`${engine}: a chain passes a file of one step to the next by its artifact`, async (t) => {
    const site = await openSite(t, open)
    const { outcome } = await site.chain([
      { id: 'make', tool: 'shell:run', args: { script: 'echo a,b > table.csv' } },
      {
        tool: 'shell:run',
        args: { script: 'cat in.csv', files: { 'in.csv': '{{steps.make.output.files["table.csv"]}}' } },
      },
    ])
    assert.deepEqual([outcome.status, (outcome.output as JsonObject).stdout], ['ok', 'a,b\n'])
  })

  test(`${engine}: another tenant cannot use, read, list or remove a file`, async (t) => {
    const site = await openSite(t, open)
    const { artifacts } = await ok(site, 'shell:run', { script: 'echo only,acme > table.csv' })
    const id = artifacts[0]?.id ?? ''
    const naming = { script: 'cat t', files: { t: { artifact: id } } }
    assert.equal(outputOf(await ok(site, 'shell:run', naming, colleague)).stdout, 'only,acme\n')
    for (const [tool, args] of [
      ['shell:run', naming],
      ['files:get', { id }],
      ['files:info', { id }],
      ['shell:run', { script: 'cat t', files: { t: { artifact: `art_${'0'.repeat(32)}` } } }],
      ['shell:run', { script: 'cat t', files: { t: { artifact: '../../etc/passwd' } } }],
    ] as const) {
      const { outcome } = await site.call(tool, args, eve)
      assert.deepEqual([outcome.error?.code, outcome.output], ['NOT_FOUND', null], JSON.stringify(args))
    }
    assert.deepEqual(outputOf(await ok(site, 'files:list', {}, eve)).items, [])
    assert.deepEqual(outputOf(await ok(site, 'files:remove', { id }, eve)), { removed: false })
    assert.equal((await site.call('files:remove', { id }, colleague)).outcome.error?.code, 'DENIED')
    assert.deepEqual(
      outputOf(await ok(site, 'files:list', { prefix: 'tab' }, colleague)).items.map((file: ArtifactRef) => file.id),
      [id],
    )
    assert.deepEqual(outputOf(await ok(site, 'files:remove', { id })), { removed: true })
    assert.equal((await site.call('files:get', { id })).outcome.error?.code, 'NOT_FOUND')
  })

  test(`${engine}: files:list has pages, and files:remove rejects the payload of a call`, async (t) => {
    const site = await openServiceSite(
      t,
      open,
      { tools: builtinTools(), runtimes: { pool: false } },
      { inlineBytes: 2_000 },
    )
    for (const n of [1, 2, 3]) await ok(site, 'files:put', { name: `page-${n}.txt`, content: `${n}` })
    const first = outputOf(await ok(site, 'files:list', { prefix: 'page-', limit: 2 }))
    const second = outputOf(await ok(site, 'files:list', { prefix: 'page-', limit: 2, cursor: first.cursor }))
    const names = [...first.items, ...second.items].map(({ name }: ArtifactRef) => name)
    assert.deepEqual([names, second.cursor], [['page-3.txt', 'page-2.txt', 'page-1.txt'], undefined])
    assert.equal((await site.call('files:list', { cursor: 'made up' })).outcome.error?.code, 'INPUT_INVALID')

    // Stored arguments of files:put are removed with the call's end; those of other tools stay for a replay.
    await ok(site, 'shell:run', { script: `true # ${'x'.repeat(10_000)}` })
    const [payload] = await site.database.query<{ id: string }>('select id from artifacts where fence = 0')
    assert.notEqual(payload, undefined, 'a large payload is a file')
    assert.equal((await site.call('files:remove', { id: payload?.id ?? '' })).outcome.error?.code, 'DENIED')
  })
}

test('hostile file names leave no folder, break no header and are not listed under another name', async (t) => {
  const site = await openSite(t, pgliteDatabase)
  const code = `
import os
names = ['evil"; filename=x.html.csv', '-rf.csv', ' .csv', '__proto__.csv', '__proto__', 'a\\u202egnp.csv', 'b\\nSet-Cookie: x.csv', 'c\\\\..\\\\d.csv']
for name in names:
    open(name, 'w').write('of ' + ascii(name))
os.makedirs('deep/er', exist_ok=True)
open('deep/er/..csv', 'w').write('dots')
os.symlink('/etc/passwd', 'link.csv')
`
  const { outcome } = await site.call('code:run', { language: 'python', code })
  assert.equal(outcome.status, 'ok')
  const { files, truncated } = outputOf(outcome)
  assert.deepEqual(truncated, ['files'])
  const names = outcome.artifacts.map(({ name }) => name)
  for (const name of names) assert.doesNotMatch(name, /[\p{Cc}\p{Cf}\\/]|^\.*$/u)
  assert.deepEqual(Object.keys(files).sort(), [
    ' .csv',
    '-rf.csv',
    '__proto__.csv',
    'deep/er/..csv',
    'evil"; filename=x.html.csv',
  ])
  assert.equal(Object.getPrototypeOf(files), Object.prototype)
  const server = await createHttpServer({
    service: site.service,
    log: { debug: () => undefined, info: () => undefined, error: () => undefined },
    authenticate: async () => ({ identity: operator }),
  })
  t.after(() => server.close({ graceMs: 1_000 }))
  const evil = outcome.artifacts.find(({ name }) => name.startsWith('evil'))
  const answer = await fetch(`${server.url}/v1/artifacts/${evil?.id}`)
  assert.equal(answer.headers.get('content-type')?.split(';')[0], 'text/csv')
  assert.match(answer.headers.get('content-disposition') ?? '', /^attachment; filename="evil_; filename=x\.html\.csv";/)
  await answer.body?.cancel()
})

test('the output of a program streams over HTTP while it runs', async (t) => {
  const site = await openSite(t, pgliteDatabase)
  const server = await createHttpServer({
    service: site.service,
    log: { debug: () => undefined, info: () => undefined, error: () => undefined },
    authenticate: async () => ({ identity: operator }),
  })
  t.after(() => server.close({ graceMs: 1_000 }))
  const { callId } = await site.service.submit(
    { kind: 'call', tool: 'shell:run', args: { script: 'echo early; while sleep 0.05; do :; done' } },
    operator,
  )
  const stop = AbortSignal.timeout(20_000)
  const events = await fetch(`${server.url}/v1/calls/${callId}/events`, { signal: stop })
  let text = ''
  for await (const piece of events.body ?? []) {
    text += Buffer.from(piece).toString()
    // The program runs until it is cancelled, so that this output arrived while it ran.
    if (text.includes('early')) break
  }
  await site.service.cancel(callId, operator)
  await site.service.wait(callId, operator, 20_000, stop)
  const { result } = await site.service.call(callId, operator)
  assert.equal(result?.status, 'cancelled')
})
