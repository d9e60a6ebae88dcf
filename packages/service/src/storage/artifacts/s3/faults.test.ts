import assert from 'node:assert/strict'
import type { RequestListener } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import { ToolError } from '@gantry/contract'
import type { ArtifactStore } from '../artifact-store.ts'
import { s3Artifacts } from '../s3.ts'
import { optionsFor, ownPlace, played } from './server.fixture.ts'

const { signal } = new AbortController()
const options = { maxBytes: 1_000_000, signal }
const digest = `sha256:${'a'.repeat(64)}`

async function storeAt(t: TestContext, listener: RequestListener, timeoutMs = 10_000): Promise<ArtifactStore> {
  return s3Artifacts(optionsFor(await played(t, listener), timeoutMs))
}

/** The error that `work` rejects with. */
async function faultOf(work: Promise<unknown>): Promise<ToolError> {
  const error = await work.then(
    () => assert.fail('it did not fail'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), inspect(error))
  return error
}

test('a wrong key, bucket or region is not retryable, and the error contains no secret', async (t) => {
  const { options: right } = await ownPlace(t)
  const wrong = [
    [{ secretAccessKey: 'not-the-secret' }, /refuses the key/],
    [{ accessKeyId: 'missing' }, /refuses the key|answers with an error/],
    [{ bucket: 'no-such-bucket' }, /no-such-bucket.* does not exist; create it/],
    [{ region: 'eu-west-7' }, /correct `s3.region`/],
  ] as const
  for (const [change, message] of wrong) {
    const error = await faultOf(s3Artifacts({ ...right, ...change }).put(Buffer.from('x'), options))
    assert.deepEqual([error.code, error.retryable], ['STORE_UNAVAILABLE', false])
    assert.match(error.message, message)
    for (const secret of [right.secretAccessKey, 'not-the-secret', right.accessKeyId, 'missing']) {
      assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(secret))
    }
  }
})

test('a server error is retryable, and a request is tried three times', async (t) => {
  const asked: string[] = []
  const store = await storeAt(t, (incoming, outgoing) => {
    asked.push(incoming.method ?? '')
    incoming.resume()
    outgoing.writeHead(500, { 'content-type': 'application/xml' }).end('<Error><Code>InternalError</Code></Error>')
  })
  const error = await faultOf(store.put(Buffer.from('x'), options))
  assert.deepEqual([error.code, error.retryable, asked.length], ['STORE_UNAVAILABLE', true, 3])
  const works = [
    () => store.has(digest, signal),
    () => store.read(digest, undefined, signal),
    () => store.remove(digest),
  ]
  for (const work of works) assert.equal((await faultOf(work())).code, 'STORE_UNAVAILABLE')
})

test('an unreachable server is STORE_UNAVAILABLE and retryable', async () => {
  const error = await faultOf(s3Artifacts(optionsFor('http://127.0.0.1:1', 5_000)).put(Buffer.from('x'), options))
  assert.deepEqual([error.code, error.retryable], ['STORE_UNAVAILABLE', true])
  assert.match(inspect(error.cause), /ECONNREFUSED/)
})

test('the error contains no text from the server’s response', async (t) => {
  const hostile = '\u001b[31mvery-secret-key\r\n<script>'
  const store = await storeAt(t, (incoming, outgoing) => {
    incoming.resume()
    const body = `<Error><Code>${hostile}</Code><Message>${hostile}</Message><AWSAccessKeyId>x</AWSAccessKeyId></Error>`
    outgoing.writeHead(400, { 'content-type': 'application/xml', 'x-amz-request-id': 'very-secret-key' }).end(body)
  })
  const error = await faultOf(store.put(Buffer.from('x'), options))
  assert.equal(error.code, 'STORE_UNAVAILABLE')
  const shown = inspect(error, { depth: 9, showHidden: true })
  for (const part of ['secret', 'script', '[31m']) assert.ok(!shown.includes(part), part)
})

test('a redirect to another host is not followed', async (t) => {
  const lured: string[] = []
  const elsewhere = await played(t, (incoming, outgoing) => {
    lured.push(incoming.url ?? '')
    outgoing.end()
  })
  for (const status of [301, 302, 307, 308]) {
    const store = await storeAt(t, (incoming, outgoing) => {
      incoming.resume()
      outgoing.writeHead(status, { location: `${elsewhere}/lured`, 'x-amz-bucket-region': 'eu-west-9' }).end()
    })
    for (const work of [() => store.put(Buffer.from('x'), options), () => store.read(digest, undefined, signal)]) {
      const error = await faultOf(work())
      assert.deepEqual([error.code, error.retryable], ['STORE_UNAVAILABLE', false])
    }
  }
  assert.deepEqual(lured, [])
  await fetch(`${elsewhere}/control`)
  assert.deepEqual(lured, ['/control'])
})

test('timeoutMs ends a request to a server that does not answer or sends a long retry-after', async (t) => {
  const silent = await storeAt(t, (incoming) => void incoming.resume(), 300)
  assert.equal((await faultOf(silent.put(Buffer.from('x'), options))).code, 'STORE_UNAVAILABLE')
  const patient = await storeAt(
    t,
    (incoming, outgoing) => {
      incoming.resume()
      outgoing.writeHead(503, { 'retry-after': '7200', 'x-amz-retry-after': '7200000' }).end()
    },
    500,
  )
  assert.equal((await faultOf(patient.put(Buffer.from('x'), options))).code, 'STORE_UNAVAILABLE')
  const dribbling = await storeAt(t, (_, outgoing) => void outgoing.writeHead(200).write('<ListBucketResult>'), 300)
  const listed = dribbling.list?.(0)[Symbol.asyncIterator]().next() ?? Promise.resolve()
  assert.equal((await faultOf(listed)).code, 'STORE_UNAVAILABLE')
})

test('an endless response is aborted, whether it is an error or a list', async (t) => {
  const sent = { bytes: 0 }
  for (const status of [400, 200]) {
    const store = await storeAt(t, (incoming, outgoing) => {
      incoming.resume()
      outgoing.writeHead(status, { 'content-type': 'application/xml' })
      const more = (): void => {
        sent.bytes += 65_536
        outgoing.write(Buffer.alloc(65_536, '<a>'))
        if (!outgoing.destroyed) outgoing.once('drain', more)
      }
      more()
    })
    const first = store.list?.(0)[Symbol.asyncIterator]().next() ?? Promise.resolve()
    assert.equal((await faultOf(first)).code, 'STORE_UNAVAILABLE')
  }
  assert.ok(sent.bytes > 4_194_304 && sent.bytes < 200_000_000, `${sent.bytes} bytes were sent`)
})

test('a body that stalls fails the stream after timeoutMs', async (t) => {
  const store = await storeAt(
    t,
    (_, outgoing) => {
      outgoing.writeHead(200, { 'content-length': '100000' })
      outgoing.write(Buffer.alloc(50_000))
    },
    300,
  )
  assert.equal((await faultOf(buffer(await store.read(digest, undefined, signal)))).code, 'STORE_UNAVAILABLE')
})

test('a connection that breaks within a body fails the stream', async (t) => {
  const store = await storeAt(t, (_, outgoing) => {
    outgoing.writeHead(200, { 'content-length': '100000' })
    outgoing.write(Buffer.alloc(50_000), () => outgoing.destroy())
  })
  assert.equal((await faultOf(buffer(await store.read(digest, undefined, signal)))).code, 'STORE_UNAVAILABLE')
})

test('a ranged read returns exactly the requested bytes or fails', async (t) => {
  const answer = { status: 206, range: 'bytes 10-19/100', bytes: 10 }
  const store = await storeAt(t, (_, outgoing) => {
    outgoing.writeHead(answer.status, answer.range === '' ? {} : { 'content-range': answer.range })
    outgoing.end(Buffer.alloc(answer.bytes))
  })
  const read = async (): Promise<Buffer> => buffer(await store.read(digest, { start: 10, end: 20 }, signal))
  assert.equal((await read()).length, 10)
  const wrong = [
    { status: 200, range: '', bytes: 100 },
    { status: 206, range: 'bytes 0-9/100', bytes: 10 },
    { status: 206, range: 'bytes 10-14/100', bytes: 5 },
    { status: 206, range: 'bytes 10-19/100', bytes: 9 },
    { status: 206, range: 'bytes 10-19/100', bytes: 11 },
  ]
  for (const other of wrong) {
    Object.assign(answer, other)
    assert.equal((await faultOf(read())).code, 'STORE_UNAVAILABLE', inspect(other))
  }
})
