import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { temporaryFolder } from './secrets.fixture.ts'
import { openSecretStore, type SecretStore } from './store.ts'
import { createKeyFile } from './store-key.ts'

const key = { variable: 'KEY' }
const environment = { KEY: randomBytes(32).toString('base64'), OTHER: randomBytes(32).toString('hex') }

async function newStore(values: { readonly [name: string]: string } = {}) {
  const file = join(temporaryFolder(), 'deep', 'secrets')
  const store = await openSecretStore({ file, key, environment, create: true })
  for (const [name, value] of Object.entries(values)) await store.set(name, value)
  return { file, store }
}

const open = (file: string, other: object = {}): Promise<SecretStore> =>
  openSecretStore({ file, key, environment, ...other })

type Written = { records: { name: string; version: number; box: string }[]; [key: string]: unknown }
function rewrite(file: string, change: (document: Written) => void): void {
  const document = JSON.parse(readFileSync(file, 'utf8')) as Written
  change(document)
  writeFileSync(file, JSON.stringify(document))
}

test('the store returns, lists in order, replaces and removes values', async () => {
  const { file, store } = await newStore({ zeta: 'last value', alpha: 'first value' })
  await store.set('alpha', 'other value')
  const again = await open(file)
  assert.deepEqual(await again.list(), ['alpha', 'zeta'])
  assert.equal(await again.get('alpha'), 'other value')
  assert.equal(await again.remove('alpha'), true)
  assert.equal(await again.remove('alpha'), false)
  assert.deepEqual(await store.list(), ['zeta'])
})

test('any text of at least four characters is stored and returned unchanged', async () => {
  const { store } = await newStore()
  const texts = fc.string({ unit: 'grapheme', minLength: 4 }).filter((text) => text.isWellFormed())
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      await store.set('any', text)
      assert.equal(await store.get('any'), text)
    }),
    { numRuns: 30 },
  )
})

test('the file holds names and no plain values, has mode 600, and no temporary file is left', async () => {
  const { file } = await newStore({ api: 'correct-horse-battery' })
  const text = readFileSync(file, 'utf8')
  assert.match(text, /"api"/)
  assert.doesNotMatch(text, /correct|battery/)
  for (const form of ['base64', 'hex'] as const) {
    assert.ok(!text.includes(Buffer.from('correct-horse-battery').toString(form).slice(0, 20)))
  }
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(join(file, '..')), ['secrets'])
})

test('every record is encrypted with a new nonce, also for an equal value', async () => {
  const { file, store } = await newStore({ one: 'equal value', two: 'equal value' })
  const nonces = () => [...readFileSync(file, 'utf8').matchAll(/"(?:box|seal)": "(.{16})/g)].map(([, nonce]) => nonce)
  const before = nonces()
  await store.set('one', 'equal value')
  await store.set('two', 'equal value')
  assert.equal(new Set([...before, ...nonces()]).size, 6)
})

test('a wrong key does not open the store, and the error reveals nothing of its content', async () => {
  const { file } = await newStore({ api: 'correct-horse' })
  await assert.rejects(open(file, { key: { variable: 'OTHER' } }), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'SECRET_UNAVAILABLE')
    assert.doesNotMatch(JSON.stringify([error.message, error.details, String(error.cause)]), /horse/)
    return true
  })
})

test('the store refuses records that are swapped, renamed, rolled back, removed, copied from another store or altered', async () => {
  const changes: { readonly [what: string]: (document: Written, older: Written, other: Written) => void } = {
    swapped: ({ records: [a, b] }) => {
      if (a && b) [a.box, b.box] = [b.box, a.box]
    },
    renamed: ({ records: [a] }) => {
      if (a) a.name = 'admin'
    },
    'rolled back': (document, older) => {
      document.records = older.records
    },
    removed: ({ records }) => {
      records.pop()
    },
    'added from another store': (document, _older, other) => {
      document.records.push(...other.records)
    },
    'in another order': ({ records }) => {
      records.reverse()
    },
    'of another version': ({ records: [a] }) => {
      if (a) a.version += 1
    },
    'changed by a bit': ({ records: [a] }) => {
      const bytes = Buffer.from(a?.box ?? '', 'base64')
      bytes[14] = (bytes[14] ?? 0) ^ 1
      if (a) a.box = bytes.toString('base64')
    },
    'of another file': (document, _older, other) => {
      document.id = other.id
    },
  }
  const other = await newStore({ foreign: 'foreign value' })
  const foreign = JSON.parse(readFileSync(other.file, 'utf8')) as Written
  for (const [what, change] of Object.entries(changes)) {
    const { file, store } = await newStore({ a: 'value of a', b: 'value of b' })
    const older = JSON.parse(readFileSync(file, 'utf8')) as Written
    await store.set('a', 'newer value')
    rewrite(file, () => undefined)
    assert.equal(await (await open(file)).get('a'), 'newer value')
    rewrite(file, (document) => change(document, older, foreign))
    await assert.rejects(open(file), { code: 'SECRET_UNAVAILABLE' }, what)
  }
})

test('a record opens under no other name, version or store, even without a check of the seal', async () => {
  const { openRecord, sealRecord } = await import('./vault.ts')
  const bytes = randomBytes(32)
  const record = sealRecord('id', 'a', 1, 'value of a', bytes)
  assert.equal(openRecord('id', record, bytes), 'value of a')
  assert.equal(openRecord('id', { ...record, name: 'b' }, bytes), undefined)
  assert.equal(openRecord('id', { ...record, version: 2 }, bytes), undefined)
  assert.equal(openRecord('other', record, bytes), undefined)
  assert.equal(openRecord('id', { ...record, box: '' }, bytes), undefined)
})

test('a file that is not a store is refused before the key is tried', async () => {
  const { file } = await newStore({ api: 'correct-horse' })
  const sound = readFileSync(file, 'utf8')
  const wrong = (change: (document: Written) => void): string => {
    const document = JSON.parse(sound) as Written
    change(document)
    return JSON.stringify(document)
  }
  const scrypt = { kind: 'scrypt', salt: 'c2FsdA==', cost: 2 ** 14, blockSize: 8, parallel: 1 }
  const texts = [
    '',
    'null',
    '[]',
    '{}',
    'hello',
    sound.slice(0, 50),
    sound.replace('"version": 1', '"version": 2'),
    ...[{ cost: 2 ** 30 }, { cost: 2 }, { cost: 20_000 }, { parallel: 1_000 }, { blockSize: 1 }, { extra: 1 }].map(
      (part) => wrong((document) => Object.assign(document, { lock: { ...scrypt, ...part } })),
    ),
    wrong((document) => Object.assign(document, { extra: 1 })),
    wrong(({ records }) => records.push(...records)),
    wrong(({ records: [a] }) => a && Object.assign(a, { name: '../api' })),
    wrong((document) => Object.assign(document, { records: {} })),
    sound.replace('"revision"', '"__proto__": {}, "revision"'),
  ]
  for (const text of texts) {
    writeFileSync(file, text)
    await assert.rejects(
      open(file),
      { code: 'CONFIG_INVALID', message: /is not a store of secrets/ },
      text.slice(0, 80),
    )
  }
})

test('a symbolic link to a store is refused', async () => {
  const { file } = await newStore({ api: 'correct-horse' })
  symlinkSync(file, `${file}-link`)
  await assert.rejects(open(`${file}-link`), { code: 'SECRET_UNAVAILABLE' })
})

test('a store with a passphrase opens with it, and not with another passphrase or a key', async () => {
  const file = join(temporaryFolder(), 'secrets')
  const passphrase = 'correct horse battery staple'
  const store = await openSecretStore({ file, key: { passphrase }, create: true })
  await store.set('api', 'some value')
  assert.equal(await (await openSecretStore({ file, key: { passphrase } })).get('api'), 'some value')
  const other = { passphrase: 'correct horse battery stable' }
  await assert.rejects(openSecretStore({ file, key: other }), { code: 'SECRET_UNAVAILABLE' })
  await assert.rejects(open(file), { code: 'CONFIG_INVALID', message: /opens with a passphrase, not with a key/ })
  await assert.rejects(openSecretStore({ file, key: { passphrase: 'short' } }), { code: 'CONFIG_INVALID' })
})

test('after rekey only the new key opens the store, and every value is kept', async () => {
  const { file, store } = await newStore({ a: 'value of a', b: 'value of b' })
  const before = readFileSync(file, 'utf8')
  await store.rekey({ variable: 'OTHER' })
  assert.equal(await store.get('a'), 'value of a')
  await assert.rejects(open(file), { code: 'SECRET_UNAVAILABLE' })
  const again = await open(file, { key: { variable: 'OTHER' } })
  assert.deepEqual([await again.get('a'), await again.get('b')], ['value of a', 'value of b'])
  writeFileSync(file, before)
  await assert.rejects(open(file, { key: { variable: 'OTHER' } }), { code: 'SECRET_UNAVAILABLE' })
})

test('concurrent writers lose no value', async () => {
  const { file } = await newStore()
  const stores = await Promise.all([open(file), open(file), open(file)])
  const names = ['a', 'b', 'c', 'd', 'e', 'f']
  await Promise.all(names.map((name, index) => stores[index % 3]?.set(name, `value of ${name}`)))
  assert.deepEqual(await (await open(file)).list(), names)
  assert.ok(!existsSync(`${file}.lock`))
})

test('a writer waits for the lock, and an abort ends the wait', async () => {
  const { file, store } = await newStore()
  writeFileSync(`${file}.lock`, '123 on elsewhere')
  const controller = new AbortController()
  const waiting = store.set('api', 'some value', controller.signal)
  setImmediate(() => controller.abort(new Error('enough')))
  await assert.rejects(waiting, /enough/)
  assert.deepEqual(await store.list(), [])
  assert.ok(existsSync(`${file}.lock`))
})

test('invalid names and values are refused', async () => {
  const { store } = await newStore()
  for (const [name, value] of [
    ['../api', 'some value'],
    ['', 'some value'],
    ['api', 'abc'],
    ['api', 'x'.repeat(65_537)],
    ['api', 'half \ud800 character'],
  ] as const) {
    await assert.rejects(store.set(name, value), (error) => ToolError.is(error) && error.code === 'INPUT_INVALID')
  }
  assert.deepEqual(await store.list(), [])
})

test('a key file is created with mode 600 and never overwritten, and one that other users can access is refused', async () => {
  const folder = temporaryFolder()
  const keyFile = join(folder, 'keys', 'key')
  await createKeyFile(keyFile)
  assert.equal(statSync(keyFile).mode & 0o777, 0o600)
  await assert.rejects(createKeyFile(keyFile), { code: 'CONFIG_INVALID', message: /exists already/ })
  const file = join(folder, 'secrets')
  await openSecretStore({ file, key: { file: keyFile }, create: true })
  for (const mode of [0o640, 0o604, 0o620]) {
    chmodSync(keyFile, mode)
    await assert.rejects(openSecretStore({ file, key: { file: keyFile } }), { message: /chmod 600/ })
  }
})

test('a key is 32 bytes as base64, base64url or hex, and no error repeats an invalid key', async () => {
  const { file } = await newStore()
  const bytes = Buffer.from(environment.KEY, 'base64')
  for (const KEY of [bytes.toString('hex'), bytes.toString('base64url'), ` ${environment.KEY}\n`]) {
    await open(file, { environment: { KEY } })
  }
  const long = 'not-a-key-but-long-enough-to-be-noticed'
  for (const KEY of ['', 'abcd', long, randomBytes(31).toString('base64'), `${environment.KEY}$`]) {
    await assert.rejects(open(file, { environment: { KEY } }), (error) => {
      return ToolError.is(error) && error.code === 'CONFIG_INVALID' && (KEY === '' || !error.message.includes(KEY))
    })
  }
})
