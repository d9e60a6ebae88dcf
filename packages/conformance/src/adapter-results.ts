import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AdapterCall, AdapterOptions } from '@gantry/adapters/internal/adapter'
import type { Content, Json } from '@gantry/contract'
import fc from 'fast-check'
import type { AdapterFixture } from './adapter-fixture.ts'
import { resultOf } from './adapter-samples.ts'

/** The part of Adapter's contract that is about results. */
export function testResults<T, R>(name: string, fixture: AdapterFixture<T, R>): void {
  const { create, readResult, hasIds, holdsImages } = fixture
  const call: AdapterCall = {
    ok: true,
    ...(hasIds ? { callId: 'c1' } : {}),
    name: 'math__add',
    tool: 'math:add:1.0.0',
    args: {},
    schemaDigest: '',
  }
  const read = (parts: Parameters<typeof resultOf>[0], options?: AdapterOptions) =>
    readResult(create(options).result(call, resultOf(parts)))

  test(`${name}: an output reaches the model whole, under the id of its call`, () => {
    const property = fc.property(fc.jsonValue(), (value) => {
      const output = JSON.parse(JSON.stringify(value).replaceAll('"__proto__"', '"proto"')) as Json
      const { id, isError, text } = read({ output })
      assert.equal(text, typeof output === 'string' ? output : JSON.stringify(output))
      assert.notEqual(isError, true)
      assert.equal(id, hasIds ? 'c1' : undefined)
    })
    fc.assert(property, { numRuns: 100 })
  })

  test(`${name}: a failure says its code, its message, the failing paths and what to do`, () => {
    const issues = [{ path: '/a', message: 'must be number, but is string' }]
    const error = { code: 'INPUT_INVALID', message: 'The arguments are wrong.', details: { issues } } as const
    const failed = read({
      status: 'failed',
      error: { stage: 'validate-input', retryable: false, effect: 'none', ...error },
    })
    assert.match(failed.text, /^Error INPUT_INVALID: The arguments are wrong\.\n- \/a must be number, but is string\n/)
    assert.match(failed.text, /Nothing has happened\. Correct this and call the tool again\.$/)
    assert.notEqual(failed.isError, false)
    const late = read({
      status: 'timeout',
      error: { code: 'TIMEOUT', message: 'Too late.', stage: 'execute', retryable: true, effect: 'possible' },
    })
    assert.match(late.text, /TIMEOUT: Too late\.\nIt may have taken effect/)
  })

  test(`${name}: a long text keeps its beginning and its end within the limit`, () => {
    const output = `begin ${'x'.repeat(100_000)} end`
    const { text } = read({ output }, { maxChars: 1_000 })
    assert.ok(text.length <= 1_000)
    assert.match(text, /^begin x+/)
    assert.match(text, /100010 characters in all[\s\S]*x end$/)
    const blocks: Content[] = Array.from({ length: 50 }, (_, index) => ({ type: 'text', text: `${index} ${output}` }))
    assert.ok(read({ content: blocks }, { maxChars: 1_000 }).text.length <= 1_200)
    assert.ok(read({ output }).text.length <= 50_000)
  })

  test(`${name}: an image is kept where the format has images and described where it has none`, () => {
    const image: Content = { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }
    const { text, images } = read({ content: [{ type: 'text', text: 'A chart:' }, image] })
    assert.equal(images, holdsImages ? 1 : 0)
    assert.equal(/\[image image\/png, about 9 bytes, not shown here\]/.test(text), !holdsImages)
    assert.match(text, /^A chart:/)
    const broken = { type: 'image' } as unknown as Content
    assert.equal(typeof read({ content: [broken, {} as Content] }).text, 'string')
  })

  test(`${name}: links to resources and their texts are there for the model`, () => {
    const content: Content[] = [
      { type: 'resource', resource: { uri: 'file:///a.txt', text: 'inside' } },
      { type: 'resource_link', uri: 'file:///b.txt', name: 'b' },
    ]
    const { text } = read({ content })
    assert.match(text, /inside[\s\S]*file:\/\/\/b\.txt/)
  })
}
