import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestFor } from '@gantry/conformance/internal/host-ports'
import type { Issue, JsonObject } from '@gantry/contract'
import { readWhen, type When } from './read-rule.ts'
import { type Rule, rules } from './rules.ts'

const waiting = { signal: new AbortController().signal }

function holds(when: When, args: JsonObject): boolean | undefined {
  const issues: Issue[] = []
  const test = readWhen(when, '', issues)
  assert.deepEqual(issues, [])
  return test(args)
}

async function effectOf(rule: Rule, args: JsonObject): Promise<string> {
  const policy = rules([rule], { default: 'allow' in rule ? 'deny' : 'allow' })
  return (await policy.decide({ ...requestFor('a'), args }, waiting)).effect
}

for (const [condition, yes, no] of [
  [{ is: 'prod' }, ['prod'], ['dev', '']],
  [{ is: { a: [1, 2], b: null } }, [{ b: null, a: [1, 2] }], [{ a: [2, 1], b: null }, {}]],
  [{ is: null }, [null], ['x', 0, false]],
  [{ not: 'prod' }, ['dev'], ['prod']],
  [{ in: ['a', 'b', 1] }, ['a', 1], ['c', 2]],
  [{ notIn: ['a', 'b'] }, ['c'], ['a', 'b']],
  [{ above: 10 }, [10.5], [10, -1]],
  [{ below: 10 }, [9], [10]],
  [{ atLeast: 10 }, [10], [9.9]],
  [{ atMost: 10, above: 0 }, [10, 1], [0, 11]],
  [{ startsWith: '/tmp/' }, ['/tmp/x'], ['/tmpx', '/etc/tmp/']],
  [{ endsWith: '.txt' }, ['a.txt'], ['a.txt.sh']],
  [{ contains: '..' }, ['a/../b'], ['a/b']],
  [{ exists: true }, [0, null, ''], []],
] as const) {
  test(`${JSON.stringify(condition)} holds for some values and not for others`, () => {
    for (const x of yes) assert.equal(holds({ '/x': condition } as When, { x } as JsonObject), true, JSON.stringify(x))
    for (const x of no) assert.equal(holds({ '/x': condition } as When, { x } as JsonObject), false, JSON.stringify(x))
  })
}

test('a pointer resolves own members of objects and lists, with escaped keys, and never inherited members', () => {
  const args = { 'a/b': { '~': [{ to: 'x' }] } }
  assert.equal(holds({ '/a~1b/~0/0/to': { is: 'x' } }, args), true)
  for (const pointer of ['/a~1b/~0/1/to', '/a~1b/~0/length', '/a~1b/~0/00/to', '/constructor/name', '/__proto__']) {
    assert.equal(holds({ [pointer]: { exists: true } }, args), false, pointer)
  }
})

test('an absent value matches only exists: false, so omitting it evades no rule', async () => {
  const conditions = [
    ...[{ is: 1 }, { in: [1] }, { not: 1 }, { notIn: [1] }, { above: 0 }, { atMost: 9 }],
    ...[{ contains: 'x' }, { startsWith: 'x' }, { endsWith: 'x' }],
  ] as const
  for (const condition of conditions) {
    const when = { '/x': condition } as When
    for (const args of [{}, { x: null }]) {
      assert.equal(holds(when, args), undefined, JSON.stringify([condition, args]))
      assert.equal(await effectOf({ allow: '*', when }, args), 'deny')
      for (const verb of ['deny', 'ask', 'unavailable'] as const) {
        assert.equal(await effectOf({ [verb]: '*', when } as unknown as Rule, args), verb, JSON.stringify(condition))
      }
    }
  }
  assert.equal(holds({ '/x': { exists: true } }, {}), false)
  assert.equal(holds({ '/x': { exists: false } }, {}), true)
  assert.equal(holds({ '/x': { is: null } }, { x: null }), true)
  assert.equal(holds({ '/x': { exists: true, above: 100 } }, {}), false)
})

test('a value of the wrong type evades no rule: an allow rule does not match, and any other rule does', async () => {
  for (const [condition, value] of [
    [{ above: 100 }, '500'],
    [{ atMost: 100 }, '5'],
    [{ is: true }, 'true'],
    [{ in: ['prod'] }, ['prod']],
    [{ not: 'prod' }, ['prod']],
    [{ startsWith: '/etc' }, ['/etc']],
    [{ contains: 'rm' }, { cmd: 'rm' }],
  ] as const) {
    const [when, args] = [{ '/x': condition } as When, { x: value } as unknown as JsonObject]
    assert.equal(await effectOf({ allow: '*', when }, args), 'deny', JSON.stringify([condition, value]))
    for (const verb of ['deny', 'ask', 'unavailable'] as const) {
      assert.equal(await effectOf({ [verb]: '*', when } as unknown as Rule, args), verb, JSON.stringify(condition))
    }
  }
})

test('all conditions of a rule must hold', async () => {
  const when = { '/env': { is: 'prod' }, '/count': { above: 10 } }
  assert.equal(await effectOf({ deny: '*', when }, { env: 'prod', count: 11 }), 'deny')
  assert.equal(await effectOf({ deny: '*', when }, { env: 'prod', count: 10 }), 'allow')
  assert.equal(await effectOf({ deny: '*', when }, { env: 'dev', count: '11' }), 'allow')
})

test('invalid conditions are refused at their path', () => {
  for (const [when, path] of [
    [{}, '/when'],
    [[], '/when'],
    ['/a', '/when'],
    [{ a: { is: 1 } }, '/when/a'],
    [{ '/a~2': { is: 1 } }, '/when/~1a~02'],
    [{ '/a': {} }, '/when/~1a'],
    [{ '/a': 5 }, '/when/~1a'],
    [{ '/a': { abov: 5 } }, '/when/~1a/abov'],
    [{ '/a': { above: '5' } }, '/when/~1a/above'],
    [{ '/a': { above: Number.NaN } }, '/when/~1a/above'],
    [{ '/a': { in: [] } }, '/when/~1a/in'],
    [{ '/a': { startsWith: '' } }, '/when/~1a/startsWith'],
    [{ '/a': { exists: 'yes' } }, '/when/~1a/exists'],
    [{ '/a': { is: undefined } }, '/when/~1a/is'],
  ] as const) {
    const issues: Issue[] = []
    readWhen(when, '/when', issues)
    assert.deepEqual(
      issues.map((issue) => issue.path),
      [path],
      JSON.stringify(when),
    )
  }
})
