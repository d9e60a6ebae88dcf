import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { deflateRawSync } from 'node:zlib'
import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import { createCodec, PayloadTooLarge } from './codec.ts'

const place = { type: 'workflow', namespace: 'default', workflowId: 'one' } as const
const key = randomBytes(32)
const secret = { identity: { principal: 'ann' }, code: 'return 42' }

async function sealed(value: unknown = secret, keys = [key]): Promise<Payload> {
  const payload = defaultPayloadConverter.toPayload(value)
  assert.ok(payload !== undefined)
  const [encoded] = await createCodec(keys).encode([payload], place)
  assert.ok(encoded !== undefined)
  return encoded
}

async function opened(payload: Payload, keys: readonly Uint8Array[] = [key], at: object = {}): Promise<unknown> {
  const [decoded] = await createCodec(keys).decode([payload], { ...place, ...at })
  assert.ok(decoded !== undefined)
  return defaultPayloadConverter.fromPayload(decoded)
}

function changed({ metadata, data }: Payload, change: (bytes: Buffer) => void): Payload {
  const bytes = Buffer.from(data ?? [])
  change(bytes)
  return { metadata: metadata ?? {}, data: bytes }
}

test('a sealed payload holds nothing readable, and opens in its workflow', async () => {
  const payload = await sealed()
  const text = Buffer.from(payload.data ?? []).toString('latin1')
  assert.ok(!text.includes('ann') && !text.includes('json/plain'))
  assert.deepEqual(await opened(payload), secret)
})

test('a payload of another workflow, another namespace or another key reads as undefined', async () => {
  const payload = await sealed()
  assert.equal(await opened(payload, [key], { workflowId: 'two' }), undefined)
  assert.equal(await opened(payload, [key], { namespace: 'other' }), undefined)
  assert.equal(await opened(payload, [randomBytes(32)]), undefined)
})

test('a payload with any changed byte reads as undefined', async () => {
  const payload = await sealed()
  for (let at = 0; at < (payload.data?.length ?? 0); at += 1) {
    const forged = changed(payload, (bytes) => {
      bytes[at] = (bytes[at] ?? 0) ^ 1
    })
    assert.equal(await opened(forged), undefined, `byte ${at}`)
  }
})

test('with a key a payload that is not sealed reads as undefined, compressed or not', async () => {
  const plain = defaultPayloadConverter.toPayload(secret)
  assert.ok(plain !== undefined)
  assert.equal(await opened(plain), undefined)
  const compressed = await sealed({ text: 'x'.repeat(5_000) }, [])
  assert.deepEqual(await opened(compressed, []), { text: 'x'.repeat(5_000) })
  assert.equal(await opened(compressed), undefined)
})

test('an earlier key opens, and the first one seals', async () => {
  const next = randomBytes(32)
  assert.deepEqual(await opened(await sealed(), [next, key]), secret)
  assert.equal(await opened(await sealed(secret, [next, key]), [key]), undefined)
})

test('a payload beyond the limit of Temporal is refused before it is sent', async () => {
  await assert.rejects(
    sealed(randomBytes(3_000_000)),
    (error) => error instanceof PayloadTooLarge && error.bytes > 2_000_000,
  )
})

test('a small payload that unpacks to more than the limit reads as undefined', async () => {
  const bomb = deflateRawSync(Buffer.alloc(100_000_000))
  const payload = { metadata: { encoding: Buffer.from('binary/gantry') }, data: Buffer.concat([Buffer.of(0), bomb]) }
  assert.equal(await opened(payload, []), undefined)
})
