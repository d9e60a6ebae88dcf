import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { ToolError } from '@gantry/contract'
import { memoryAudit } from '../audits/memory.ts'
import { createExecutor } from '../executor.ts'
import { guessesOf } from '../json/guesses.fixture.ts'
import { tool } from './pipeline.fixture.ts'

test('a tool receives only its declared secrets, and its result contains none', async () => {
  const secret = 'correct-horse-battery'
  const leaky = tool(
    (_args, context) => {
      assert.deepEqual(Object.keys(context.secrets), [])
      assert.equal(context.secrets.other, undefined)
      context.log(`using ${context.secrets.api}`)
      context.send({ token: Buffer.from(context.secrets.api ?? '').toString('base64') })
      if (context.attempt === 1) return { said: `it is ${context.secrets.api}`, list: [context.secrets.api ?? ''] }
      return null
    },
    { secrets: ['api'] },
  )
  const gantry = createExecutor({ tools: [leaky], secrets: { api: secret, other: 'not-for-this-tool' } })
  const events = []
  for await (const event of gantry.stream('test:it')) events.push(event)
  const text = JSON.stringify(events)
  assert.ok(!text.includes(secret) && !text.includes(Buffer.from(secret).toString('base64').replace(/=+$/, '')), text)
  assert.match(text, /it is \[redacted\]/)
})

test('a secret split over two chunks is redacted, and so is one in the audited arguments of a privileged call', async () => {
  const secret = 'correct-horse-battery'
  const audit = memoryAudit()
  const leaky = tool(
    async function* () {
      yield `it is ${secret.slice(0, 8)}`
      yield `${secret.slice(8)}, really`
      yield { n: 1 }
      yield 'correct'
    },
    { secrets: ['api'], permissions: ['x'] },
  )
  const gantry = createExecutor({ tools: [leaky], secrets: { api: secret }, audit })
  const chunks = []
  for await (const event of gantry.stream('test:it', { note: `mine is ${secret}` }))
    if (event.kind === 'chunk') chunks.push(event.data)
  assert.deepEqual(chunks, ['it is [redacted], really', { n: 1 }, 'correct'])
  assert.ok(!JSON.stringify(audit.records()).includes(secret))
})

test('the boundaries of streamed chunks do not reveal whether a guess of a secret was right', async () => {
  const secret = 'correctHorseBattery7'
  const echo = tool(
    async function* ({ parts }: { readonly parts?: readonly string[] }) {
      yield* parts ?? []
    },
    { secrets: ['api'] },
  )
  const gantry = createExecutor({ tools: [echo], secrets: { api: secret } })
  const chunksOf = async (parts: readonly string[]): Promise<string[]> => {
    const chunks: string[] = []
    for await (const event of gantry.stream('test:it', { parts }))
      if (event.kind === 'chunk') chunks.push(String(event.data))
    assert.equal(chunks.join(''), parts.join(''))
    return chunks
  }
  for (const { right, wrong } of guessesOf(secret)) {
    for (const around of ['', '\n', 'x'.repeat(300), '{"a":1}\n']) {
      const [one, other] = await Promise.all(
        [right, wrong].map((guess) => chunksOf([`${around}|zzz`, `${around}|${guess}`, `|yyy${around}`, guess])),
      )
      assert.deepEqual(
        one?.map((chunk) => chunk.length),
        other?.map((chunk) => chunk.length),
        right,
      )
    }
  }
  await gantry.close()
})

test('the truncation of a long message does not reveal whether a guess of a secret was right', async () => {
  const secret = 'correctHorseBattery7'
  const loud = tool(
    (args) => {
      throw new Error(String((args as { readonly text?: string }).text))
    },
    { secrets: ['api'], breaker: false },
  )
  const gantry = createExecutor({ tools: [loud], secrets: { api: secret } })
  for (const { right, wrong } of guessesOf(secret)) {
    for (const at of [9_995, 99_995]) {
      const said = async (guess: string): Promise<number | undefined> =>
        (await gantry.run('test:it', { text: `${'x'.repeat(at)} ${guess}${' y'.repeat(500)}` })).error?.message.length
      assert.equal(await said(right), await said(wrong), right)
    }
  }
  await gantry.close()
})

test('a secret in an error and its causes is redacted', async () => {
  const secret = 'correct-horse-battery'
  const leaky = tool(
    () => {
      throw new Error(`bad token ${secret}`, { cause: new Error(`for ${secret}`) })
    },
    { secrets: ['api'] },
  )
  const gantry = createExecutor({ tools: [leaky], secrets: { api: secret } })
  const result = await gantry.run('test:it')
  assert.ok(!JSON.stringify(result).includes(secret))
  assert.equal(result.error?.message, 'bad token [redacted]')
})

test('an error that runOrThrow throws contains no secret', async () => {
  const secret = 'correct-horse-battery'
  const leaky = tool(
    () => {
      throw new Error(`bad token ${secret}`, { cause: new Error(`for ${secret}`) })
    },
    { secrets: ['api'] },
  )
  const gantry = createExecutor({ tools: [leaky], secrets: { api: secret } })
  const thrown: unknown = await gantry.runOrThrow('test:it').catch((error: unknown) => error)
  assert.ok(ToolError.is(thrown))
  assert.equal(thrown.message, 'bad token [redacted]')
  assert.ok(!inspect(thrown, { depth: 10 }).includes(secret))
})

test('a missing secret fails the call before the tool starts', async () => {
  let calls = 0
  const gantry = createExecutor({ tools: [tool(() => ++calls, { secrets: ['api'] })] })
  const result = await gantry.run('test:it')
  assert.equal(result.error?.code, 'SECRET_UNAVAILABLE')
  assert.equal(result.error?.effect, 'none')
  assert.equal(calls, 0)
})

test('a secret across the truncation point of a message is redacted', async () => {
  const secret = 'correct-horse-battery'
  for (const length of [9_980, 9_990, 9_999]) {
    const text = `${'x'.repeat(length)}${secret} and more`
    const leaky = tool(
      (_args, { log, progress }) => {
        log(text)
        progress(1, 2, text)
        throw Object.assign(new Error(text), { code: `${'y'.repeat(90)}${secret}` })
      },
      { secrets: ['api'] },
    )
    const gantry = createExecutor({ tools: [leaky], secrets: { api: secret } })
    const events = []
    for await (const event of gantry.stream('test:it')) events.push(event)
    assert.ok(!/corre|horse/.test(JSON.stringify(events)), `cut at ${length}`)
  }
})
