import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestFor } from '@gantry/conformance/internal/host-ports'
import type { Identity, Tool } from '@gantry/contract'
import fc from 'fast-check'
import { type CompiledRule, isFor, readRule } from './read-rule.ts'
import { createRuleIndex } from './rules.ts'

const namespaces = ['a', 'b', 'A']
const names = ['x', 'xy', 'z']
const pattern = fc.constantFrom('*', 'a:*', 'b:*', 'a:x', 'A:X*', 'b:z', 'a:xy:1.0.0', 'b:x:2.0.0')
const some = <T>(...values: readonly T[]) => fc.subarray([...values], { minLength: 1 })
const rule = fc.record(
  {
    deny: fc.oneof(pattern, fc.array(pattern, { minLength: 1, maxLength: 3 })),
    to: some('ann', 'bob', 'svc-*', 'svc-1', '*'),
    tenants: some('one', 'two'),
    roles: some('r', 's'),
    effects: some('read', 'once'),
    tags: some('t', 'U u'),
  },
  { requiredKeys: ['deny'] },
)
const caller: fc.Arbitrary<Identity> = fc.record({
  principal: fc.constantFrom('ann', 'bob', 'svc-1', 'svc-', 'sv'),
  tenant: fc.constantFrom('one', 'two', 'three'),
  permissions: fc.constant([]),
  roles: fc.subarray(['r', 's', 'q']),
})
const tool: fc.Arbitrary<Tool> = fc
  .record({
    namespace: fc.constantFrom(...namespaces),
    name: fc.constantFrom(...names),
    version: fc.constantFrom('1.0.0', '2.0.0'),
    effect: fc.constantFrom('read', 'once', 'keyed'),
    tags: fc.subarray(['t', 'u-u']),
  })
  .map((changes) => requestFor('a', {}, changes).tool)

test('the rule index finds exactly the rules that a scan of all rules finds', () => {
  fc.assert(
    fc.property(
      fc.array(rule, { maxLength: 12 }),
      fc.array(tool, { maxLength: 4 }),
      caller,
      (list, tools, identity) => {
        const compiled = list.flatMap((one, place) => readRule(one, place, []) ?? [])
        assert.equal(compiled.length, list.length)
        const index = createRuleIndex(compiled)
        for (const one of [...tools, ...tools]) {
          const found = new Set<CompiledRule>()
          index.visit(one, identity, (each) => isFor(each, identity) && found.add(each))
          const expected = compiled.filter((each) => (each.about?.(one) ?? true) && isFor(each, identity))
          const byPlace = [...found].sort((before, after) => before.index - after.index)
          assert.deepEqual(byPlace, expected)
        }
      },
    ),
  )
})
