import assert from 'node:assert/strict'
import { test } from 'node:test'
import { entryOf } from '@gantry/conformance/internal/adapter-samples'
import fc from 'fast-check'
import { formatName, nameTable } from './names.ts'

const part = fc.stringMatching(/^[ab_](?:\.?[ab_-]){0,4}$/)

test('different ids never share a format name', () => {
  const seen = new Map<string, string>()
  const property = fc.property(part, part, fc.constantFrom('', ':1.0.0', ':1.0.1'), (namespace, name, version) => {
    const key = `${namespace}:${name}${version}`
    const made = formatName(key)
    assert.match(made, /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/)
    assert.equal(seen.get(made) ?? key, key)
    seen.set(made, key)
  })
  fc.assert(property, { numRuns: 5_000 })
  assert.ok(seen.size > 2_000)
})

test('a plain id keeps its words, and an ambiguous id gets a digest', () => {
  assert.equal(formatName('math:add'), 'math__add')
  assert.equal(formatName('a-b:c__d'), 'a-b__c__d')
  assert.match(formatName('a__b:c'), /^a_b_c-[0-9a-f]{12}$/)
  assert.match(formatName('a_:b'), /^a_b-[0-9a-f]{12}$/)
  assert.match(formatName('api.v2:get.user'), /^api_v2_get_user-[0-9a-f]{12}$/)
  assert.match(formatName('9gag:top'), /^t_9gag_top-[0-9a-f]{12}$/)
  assert.equal(formatName(`a:${'x'.repeat(128)}`).length, 64)
})

test('the newest listed version has the plain name, whatever the order of the list', () => {
  const old = entryOf({ version: '1.0.0' })
  const now = entryOf({ version: '1.1.0' })
  for (const list of [
    [old, now],
    [now, old],
  ]) {
    const names = nameTable(list)
    assert.equal(names.nameOf('math:add:1.1.0'), 'math__add')
    assert.match(names.nameOf('math:add:1.0.0') ?? '', /^math_add_1_0_0-[0-9a-f]{12}$/)
    assert.equal(names.find('math__add'), now)
  }
  assert.equal(nameTable([old]).nameOf('math:add:1.0.0'), 'math__add')
  assert.equal(nameTable([old]).find('__proto__'), undefined)
})
