import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'
import { startServiceRig } from '../service.fixture.ts'

const config = {
  demo: true,
  policy: {
    default: 'allow',
    rules: [
      { deny: 'demo:add', when: { '/a': { above: 100 } }, name: 'big sums', reason: 'too \u001b[2Jmuch' },
      { ask: 'demo:echo', roles: ['intern'], approvers: ['lead'] },
      { unavailable: 'demo:sleep' },
    ],
  },
  tenants: { guests: { tools: ['demo:echo'] } },
}

async function local(...line: readonly string[]) {
  using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
  const io = keptIo({ folder: folder.path })
  const code = await runCommandLine(['policy', 'test', ...line], io)
  return { code, ...io.printed }
}

test('policy test explains a decision of the configuration and exits with the code of the decision', async () => {
  const denied = await local('demo:add', '{"a":500,"b":1}')
  assert.equal(denied.code, 3)
  assert.match(denied.out, /^decision: deny\nreason: too \\e\[2Jmuch\nrule: big sums\ntool: demo:add:1\.0\.0\n/)
  assert.equal((await local('demo:add', '{"a":5,"b":1}')).code, 0)
  const asked = await local('demo:echo', '{"value":1}', '--principal', 'bob', '--grant-role', 'intern', '--json')
  assert.equal(asked.code, 3)
  const { effect, approvers, rule } = JSON.parse(asked.out)
  assert.deepEqual([effect, approvers, rule], ['ask', ['lead'], '/rules/1'])
  assert.equal((await local('demo:sleep')).code, 5)
})

test('policy test decides for another tenant with the tools visible to it', async () => {
  const there = JSON.parse((await local('demo:echo', '--tenant', 'guests', '--json')).out)
  const hidden = JSON.parse((await local('demo:add', '--tenant', 'guests', '--json')).out)
  assert.deepEqual([there.exists, there.effect, hidden.exists, hidden.effect], [true, 'allow', false, 'deny'])
  const none = await local('demo:ad')
  assert.deepEqual([none.code, /TOOL_NOT_FOUND.*demo:add/.test(none.err)], [2, true])
})

test('policy test, show and set call the running service', async (t) => {
  const { gantry, json, service, folder } = await startServiceRig(t)
  const own = await json(['policy', 'test', 'demo:add', '{"a":1,"b":2}'])
  assert.deepEqual([own.code, own.values[0].effect, own.values[0].version], [0, 'allow', 'fake'])
  assert.match((await gantry(['policy', 'show'])).out, /^version: fake\nNo policy was set/)
  const given: unknown[] = []
  service.policy.replace = async (document) => {
    given.push(document)
    if (document.rules.length === 0) throw new ToolError('CONFIG_INVALID', 'The policy is wrong: /rules/0 is odd.')
    return { version: 'v+p7', stored: { version: 7, document, createdAt: 'now', createdBy: 'ada' } }
  }
  using files = folderWith({
    'p.yaml': 'default: allow\nrules:\n  - deny: demo:*\n',
    'q.json': '{"rules":[]}',
    'r.json': '[]',
    'typo.json': '{"rules":[{"deny":"demo:*"}],"defualt":"allow"}',
    'rule.yaml': 'rule: []\n',
  })
  const set = await gantry(['policy', 'set', `${files.path}/p.yaml`])
  assert.deepEqual([set.code, set.out], [0, 'version: v+p7\nset: version 7\n'])
  assert.deepEqual(given, [{ rules: [{ deny: 'demo:*' }], default: 'allow' }])
  assert.equal((await gantry(['policy', 'set', `${files.path}/q.json`])).code, 2)
  assert.match((await gantry(['policy', 'set', `${files.path}/r.json`])).err, /must hold \{ rules/)
  assert.equal((await gantry(['policy', 'set', `${folder}/none.json`])).code, 2)
  given.length = 0
  const typo = await gantry(['policy', 'set', `${files.path}/typo.json`])
  assert.deepEqual([typo.code, given], [2, []])
  assert.match(typo.err, /\/defualt is not known here \(did you mean "default"\?\)/)
  const other = await gantry(['policy', 'set', `${files.path}/rule.yaml`])
  assert.deepEqual([other.code, given], [2, []])
  assert.match(other.err, /\/rule is not known here \(did you mean "rules"\?\)/)
})
