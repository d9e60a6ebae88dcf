import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runIt, tool } from './pipeline.fixture.ts'

test('a result says failed or denied by its structure, never by its words', async () => {
  const cases: [unknown, string][] = [
    [{ success: false, error: 'nope' }, 'failed'],
    [{ success: false, error: { code: 'DENIED', message: 'no' } }, 'denied'],
    [{ success: false, denied: true }, 'denied'],
    [{ exitCode: 2, stdout: '', stderr: 'bad' }, 'failed'],
    [{ isError: true, content: [{ type: 'text', text: 'broken' }] }, 'failed'],
    [{ success: true, note: 'permission denied' }, 'ok'],
    [{ text: 'access denied, unauthorized' }, 'ok'],
    [{ exitCode: 0, stdout: '', stderr: '' }, 'ok'],
    [{ exitCode: 3 }, 'failed'],
  ]
  for (const [output, status] of cases) {
    const result = await runIt(tool(() => output))
    assert.equal(result.status, status, JSON.stringify(output))
    if (!('content' in (output as object))) assert.deepEqual(result.output, output)
  }
})

test('MCP content is kept beside the output it stands for', async () => {
  const content = [
    { type: 'text', text: 'hello' },
    { type: 'image', data: 'aGk=', mimeType: 'image/png' },
  ]
  const structured = await runIt(tool(() => ({ content, structuredContent: { n: 1 } })))
  assert.deepEqual(structured.output, { n: 1 })
  assert.deepEqual(structured.content, content)
  assert.equal((await runIt(tool(() => ({ content })))).output, 'hello')
})

test('output that is no JSON, or too much of it, is a failure that says where', async () => {
  const bad = await runIt(tool(() => ({ a: { b: 1n } })))
  assert.equal(bad.error?.code, 'OUTPUT_INVALID')
  assert.match(bad.error?.message ?? '', /\/a\/b/)
  const large = await runIt(
    tool(() => 'x'.repeat(2_000)),
    {},
    { limits: { resultBytes: 1_000 } },
  )
  assert.equal(large.error?.code, 'RESULT_TOO_LARGE')
  let deep: unknown = 1
  for (let level = 0; level < 10_000; level++) deep = { deep }
  assert.equal((await runIt(tool(() => deep))).error?.code, 'RESULT_TOO_LARGE')
})

test('a tool may ask for narrower limits than the executor, not for wider ones', async () => {
  const narrow = await runIt(tool(() => 'x'.repeat(50), { limits: { resultBytes: 10 } }))
  assert.equal(narrow.error?.code, 'RESULT_TOO_LARGE')
  const wide = tool(() => 'x'.repeat(50), { limits: { resultBytes: 1_000 } })
  assert.equal((await runIt(wide, {}, { limits: { resultBytes: 10 } })).error?.code, 'RESULT_TOO_LARGE')
})
