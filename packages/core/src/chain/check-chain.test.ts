import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { checkChain } from './check-chain.ts'
import { chainLimits } from './limits.ts'

function issuesOf(steps: unknown, limits = {}): string[] {
  const checked = checkChain(steps, chainLimits(limits))
  return checked.ok ? [] : checked.issues.map(({ path, message }) => `${path} ${message}`)
}

test('the check lists every issue with its path', () => {
  const issues = issuesOf([
    { tool: 'a:b', argz: {}, timeoutMs: 0, retry: { attempts: 0, delay: 1 }, onError: 'ignore' },
    { args: [], concurrency: 2 },
    'step',
    { parallel: {}, tool: 'a:b' },
    { parallel: [{ parallel: [] }], concurrency: 99 },
    { tool: 'a:{{prev}}', forEach: 'text', usePrevious: 3 },
  ])
  const paths = issues.map((issue) => issue.split(' ')[0])
  assert.deepEqual(paths, [
    '/0/argz',
    '/0/timeoutMs',
    '/0/retry/delay',
    '/0/retry/attempts',
    '/0/onError',
    '/1/concurrency',
    '/1/tool',
    '/1/args',
    '/2',
    '/3',
    '/3/parallel',
    '/4/parallel/0',
    '/4/parallel/0/tool',
    '/4/concurrency',
    '/5/tool',
    '/5/usePrevious',
    '/5/forEach',
  ])
  assert.match(issues[0] ?? '', /did you mean "args"/)
})

test('the check finds references to unknown steps, later steps, the step itself and parallel siblings', () => {
  const issues = issuesOf([
    { id: 'first', tool: 'a:b', args: { x: '{{prev}}', y: '{{steps.last.output}}', z: '{{item}}' }, usePrevious: true },
    {
      parallel: [
        { id: 'left', tool: 'a:b', args: { x: '{{steps.right.output}}', ok: '{{prev}} {{steps.first.output.a}}' } },
        { id: 'right', tool: 'a:b', when: '{{steps.right.status}}' },
      ],
    },
    { id: 'each', tool: 'a:b', forEach: '{{item}}', when: '{{index}}', args: { ok: '{{item.x}}{{index}}' } },
    { id: 'last', tool: 'a:b', args: { issue: ['{{steps.frist.output}}', '{{steps.left.number}}', '{{steps}}'] } },
  ])
  assert.deepEqual(issues, [
    '/0/args/x {{prev}} has nothing to refer to in the first step; use {{input}}',
    '/0/args/y {{steps.last.output}} refers to a step that runs later',
    '/0/args/z {{item}} is defined only in the args of a forEach step',
    '/0/usePrevious {{prev}} has nothing to refer to in the first step; use {{input}}',
    '/1/parallel/0/args/x {{steps.right.output}} refers to a member of the same group, which runs at the same time',
    '/1/parallel/1/when {{steps.right.status}} refers to its own step',
    '/2/when {{index}} is defined only in the args of a forEach step',
    '/2/forEach {{item}} is defined only in the args of a forEach step',
    '/3/args/issue/0 {{steps.frist.output}} refers to a step that does not exist (did you mean "first"?)',
    '/3/args/issue/1 {{steps.left.number}} must go on with one of output, status, error; write {{steps.left.output.number}} for the output',
    '/3/args/issue/2 {{steps}} names no step; write {{steps.<id>.output}}',
  ])
})

test('step ids are given or derived from the position, and are unique', () => {
  const made = checkChain([{ tool: 'a:b' }, { parallel: [{ tool: 'a:b' }, { id: 'm', tool: 'a:b' }] }], chainLimits())
  assert.deepEqual(
    made.ok && made.plan.map((step) => [step.id, step.kind === 'group' && step.members.map((member) => member.id)]),
    [
      ['step1', false],
      ['step2', ['step2_1', 'm']],
    ],
  )
  const issues = issuesOf([
    { id: 'step2', tool: 'a:b' },
    { tool: 'a:b' },
    { id: '1x', tool: 'a:b' },
    { id: '__proto__', tool: 'a:b' },
    { id: 7, tool: 'a:b' },
  ])
  assert.match(issues[0] ?? '', /^\/1 gets the id "step2", which is already the id of \/0$/)
  assert.deepEqual(
    issues.slice(1).map((issue) => issue.split(' ')[0]),
    ['/2/id', '/3/id', '/4/id'],
  )
})

test('usePrevious may not replace a given argument', () => {
  const issues = issuesOf([{ tool: 'a:b' }, { tool: 'a:b', usePrevious: 'x', args: { x: 1 } }])
  assert.deepEqual(issues, ['/1/usePrevious would replace the argument "x", which args has too'])
})

test('the check refuses a chain that is not plain JSON, too large or too long', () => {
  assert.deepEqual(issuesOf({ tool: 'a:b' }), [' must be a list of steps'])
  assert.match(issuesOf([{ tool: 'a:b', args: { at: new Date(0) } }])[0] ?? '', /^\/0\/args\/at is a Date/)
  assert.match(issuesOf(JSON.parse('[{"tool":"a:b","args":{"__proto__":1}}]'))[0] ?? '', /^\/0\/args\/__proto__ /)
  assert.match(issuesOf(Array(101).fill({ tool: 'a:b' }))[0] ?? '', /has 101 steps; at most 100/)
  assert.match(
    issuesOf([{ tool: 'a:b' }, { tool: 'a:b', args: { x: '{{prev.a.b.c}}' } }], { referenceDepth: 2 })[0] ?? '',
    /more than 2 segments/,
  )
  const circle: unknown[] = []
  circle.push({ tool: 'a:b', args: { circle } })
  assert.match(issuesOf(circle)[0] ?? '', /contains itself/)
})

test('the check never throws, whatever the value', () => {
  const key = fc.constantFrom(
    'id',
    'tool',
    'args',
    'parallel',
    'when',
    'forEach',
    'retry',
    'onError',
    'usePrevious',
    'x',
  )
  const value = fc.letrec((tie) => ({
    any: fc.oneof(fc.anything(), fc.constant('{{prev}}'), fc.array(tie('any')), fc.dictionary(key, tie('any'))),
  })).any
  fc.assert(fc.property(value, (steps) => void checkChain(steps, chainLimits())))
})

test('a chain with too many steps is one issue, and no step is read', () => {
  const untouched = new Proxy({}, { get: () => assert.fail('looked at'), ownKeys: () => assert.fail('looked at') })
  assert.deepEqual(issuesOf(Array(100_000).fill(untouched)), [' has 100000 steps; at most 100 are allowed'])
  const members = Array(20_000).fill({ tol: 'a:b' })
  assert.deepEqual(issuesOf([{ parallel: members }]), [' has 20000 steps; at most 100 are allowed'])
})

test('the check of a long chain does not copy the earlier steps for each step', () => {
  const steps = Array.from({ length: 20_000 }, (_, index) => ({
    tool: 'a:b',
    args: index === 0 ? {} : { x: `{{steps.step${index}.output}}` },
  }))
  assert.deepEqual(issuesOf(steps, { steps: 20_000, chainBytes: 10_000_000 }), [])
})

test('the check stops after a hundred issues', () => {
  const args = { list: Array(30_000).fill('{{steps.nope.output}}') }
  assert.equal(issuesOf([{ tool: 'a:b', args }]).length, 100)
})

test('a retry rule has 1 to 100 attempts and delays that are not negative', () => {
  const paths = (retry: unknown) => issuesOf([{ tool: 'a:b', retry }]).map((issue) => issue.split(' ')[0])
  for (const attempts of [0, 101, 1.5, '3', null]) assert.deepEqual(paths({ attempts }), ['/0/retry/attempts'])
  for (const delayMs of [-1, '5', Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.deepEqual(paths({ attempts: 1, delayMs }), ['/0/retry/delayMs'])
    assert.deepEqual(paths({ attempts: 1, maxDelayMs: delayMs }), ['/0/retry/maxDelayMs'])
  }
  assert.deepEqual(paths({ attempts: 100, delayMs: 0.5, maxDelayMs: 0 }), [])
})

test('quotes in messages are truncated', () => {
  const long = 'k'.repeat(10_000)
  const issues = issuesOf([
    { tool: 'a:b', [long]: 1, when: { value: 1, [long]: 2 } },
    { tool: 'a:b', args: { a: `{{steps.${long}.output}}`, b: `{{${long}}}`, [long]: '{{x}}' } },
    { tool: 'a:b', args: { a: `{{steps.step1.${long}}}`, b: `{{prev.${long}!}}`, [long]: 1 }, usePrevious: long },
  ])
  assert.equal(issues.length, 8)
  for (const issue of issues) assert.ok(issue.length < 1_300, issue)
})
