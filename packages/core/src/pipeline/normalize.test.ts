import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runIt, tool } from './pipeline.fixture.ts'

test('the structure of an output marks it as failed or denied, never its wording', async () => {
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

test('MCP content is kept next to the output taken from it', async () => {
  const content = [
    { type: 'text', text: 'hello' },
    { type: 'image', data: 'aGk=', mimeType: 'image/png' },
  ]
  const structured = await runIt(tool(() => ({ content, structuredContent: { n: 1 } })))
  assert.deepEqual(structured.output, { n: 1 })
  assert.deepEqual(structured.content, content)
  assert.equal((await runIt(tool(() => ({ content })))).output, 'hello')
})

test('output that is not JSON fails with its path, and output over the limits fails with RESULT_TOO_LARGE', async () => {
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

test('a tool may set lower limits than the executor, not higher ones', async () => {
  const narrow = await runIt(tool(() => 'x'.repeat(50), { limits: { resultBytes: 10 } }))
  assert.equal(narrow.error?.code, 'RESULT_TOO_LARGE')
  const wide = tool(() => 'x'.repeat(50), { limits: { resultBytes: 1_000 } })
  assert.equal((await runIt(wide, {}, { limits: { resultBytes: 10 } })).error?.code, 'RESULT_TOO_LARGE')
})

test('a text that is one JSON object or array is parsed as output, and the text stays in the content', async () => {
  const text = '{"number": 7, "id": 12345678901234567890}'
  const content = [{ type: 'text', text }]
  const output = { number: 7, id: '12345678901234567890' }
  for (const raw of [{ content }, text]) {
    const result = await runIt(tool(() => raw))
    assert.deepEqual([result.status, result.output, result.content], ['ok', output, content])
  }
  assert.deepEqual((await runIt(tool(() => ' [1, 2] '))).output, [1, 2])
})

test('a text is not parsed when it is not JSON, one of several, too large, or declared as text', async () => {
  const texts = ['{"open":', '[1] and more', '"quoted"', '7', 'null', '[link](https://example.com)']
  for (const text of texts) assert.equal((await runIt(tool(() => text))).output, text)
  const two = [
    { type: 'text', text: '[1,' },
    { type: 'text', text: '2]' },
  ]
  assert.equal((await runIt(tool(() => ({ content: two })))).output, '[1,\n2]')
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  assert.equal((await runIt(tool(() => deep))).output, deep)
  const declared = await runIt(tool(() => '{"a":1}', { outputSchema: { type: 'string' } }))
  assert.deepEqual([declared.output, declared.warnings], ['{"a":1}', []])
  const structured = await runIt(tool(() => ({ content: [{ type: 'text', text: '{}' }], structuredContent: '[1]' })))
  assert.equal(structured.output, '[1]')
})

test('a JSON text with `success: false` is a failure, from a tool and from an MCP server', async () => {
  const text = '{"success": false, "error": "no such issue"}'
  for (const raw of [text, { content: [{ type: 'text', text }] }]) {
    const { status, error } = await runIt(tool(() => raw))
    assert.deepEqual([status, error?.code, error?.message], ['failed', 'BACKEND_FAILED', 'no such issue'])
  }
})

test('a __proto__ key in a JSON text is dropped with a warning', async () => {
  const { output, warnings } = await runIt(tool(() => '{"__proto__": {"admin": true}, "a": 1}'))
  assert.deepEqual(output, { a: 1 })
  assert.match(warnings[0]?.message ?? '', /__proto__/)
})
