import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Issue } from '@gantry/contract'
import fc from 'fast-check'
import { oneOrMoreMatcher, toolMatcher } from './tool-pattern.ts'

const create = { namespace: 'GitHub', name: 'create_Issue', version: '1.2.0-RC.1+build.7' }

function issuesOf(patterns: unknown, read = toolMatcher): readonly Issue[] {
  const issues: Issue[] = []
  read(patterns, '/allow', issues)
  return issues
}

function matches(pattern: string): boolean {
  const issues: Issue[] = []
  const found = toolMatcher([pattern], '/allow', issues)(create)
  assert.deepEqual(issues, [], pattern)
  return found
}

for (const pattern of [
  '*',
  'github:*',
  'GITHUB:*',
  'github:create*',
  'GitHub:CREATE_*',
  'github:create_issue*',
  'github:create_issue',
  'GITHUB:CREATE_ISSUE',
  'GITHUB:create_issue:1.2.0-RC.1',
  'github:create_issue:1.2.0-RC.1+another',
]) {
  test(`${pattern} matches GitHub:create_Issue:1.2.0-RC.1`, () => assert.ok(matches(pattern)))
}

for (const pattern of [
  'git:*',
  'github:creates*',
  'github:create',
  'git:hub',
  'github:create_issue:1.2.0',
  'github:create_issue:1.2.0-rc.1',
  'github:create_issues',
]) {
  test(`${pattern} does not match GitHub:create_Issue:1.2.0-RC.1`, () => assert.ok(!matches(pattern)))
}

for (const pattern of [
  '',
  ' ',
  'gh',
  '**',
  '*:*',
  '*:delete',
  'gh*:x',
  'gh:',
  ':x',
  'gh:*x',
  'gh:a*b',
  'gh:a**',
  'gh:..*',
  'gh:x:',
  'gh:x:*',
  'gh:x:1',
  'gh:x:^1',
  'gh:*:1.0.0',
  'gh:x:1.0.0:',
  'gh:x y',
  'gh:x\u202e',
  `gh:${'x'.repeat(200)}`,
]) {
  test(`${JSON.stringify(pattern.slice(0, 20))} is refused, and the error lists the valid forms`, () => {
    for (const [issue, path] of [
      [issuesOf(['gh:ok', pattern]), '/allow/1'],
      [issuesOf(pattern, oneOrMoreMatcher), '/allow'],
    ] as const) {
      assert.deepEqual(
        issue.map((each) => each.path),
        [path],
      )
      assert.match(issue[0]?.message ?? '', /^[\x20-\x7e…]+namespace:prefix\*[\x20-\x7e]+$/)
    }
  })
}

test('a value that is not a list of patterns is refused, and the error lists the valid forms', () => {
  for (const patterns of [undefined, null, 5, {}, []]) {
    for (const read of [toolMatcher, oneOrMoreMatcher]) {
      const [issue] = issuesOf(patterns, read)
      assert.equal(issue?.path, '/allow')
      assert.match(issue?.message ?? '', /namespace:prefix\*/)
    }
  }
  assert.match(issuesOf([5])[0]?.message ?? '', /namespace:prefix\*/)
  assert.equal(issuesOf('gh:*')[0]?.path, '/allow')
})

test('a list of patterns matches what any of its patterns matches', () => {
  const word = fc.stringMatching(/^[a-c]{1,2}$/)
  const tool = fc.record({ namespace: word, name: word, version: fc.constantFrom('1.0.0', '2.0.0') })
  const pattern = fc.oneof(
    word.map((namespace) => `${namespace}:*`),
    fc
      .tuple(word, word, fc.constantFrom('', '*', ':1.0.0'))
      .map(([namespace, name, end]) => `${namespace}:${name}${end}`),
  )
  fc.assert(
    fc.property(fc.array(pattern, { minLength: 1, maxLength: 6 }), tool, (patterns, wanted) => {
      const together = toolMatcher(patterns, '', [])(wanted)
      assert.equal(
        together,
        patterns.some((each) => toolMatcher([each], '', [])(wanted)),
      )
    }),
  )
})
