import assert from 'node:assert/strict'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import { adding, askingRuns } from './gateway.fixture.ts'

const run = askingRuns()

sandboxTest(
  'a Python program calls tools by attribute, by item, with a dict and by id, and returns a value',
  async () => {
    const code = `
a = await tools.math.add(a=1, b=2)
b = await tools.math.add({'a': a, 'b': 10})
c = await tools['math']['add'](a=b, b=100)
print('seen', c)
return [a, b, await run('math:add', {'a': c, 'b': 1000}), await run('math:add', a=0.5, b=0.25)]
`
    const { outcome, stdout, questions } = await run(code, adding)
    assert.deepEqual(outcome.value, [3, 13, 1113, 0.75])
    assert.deepEqual([stdout, outcome.exit, outcome.fault], ['seen 113\n', { code: 0 }, undefined])
    assert.deepEqual(
      questions.map(({ number, kind }) => [number, kind]),
      [1, 2, 3, 4, 5].map((number) => [number, 'call']),
    )
  },
)

sandboxTest('every function of the program API makes its gateway request', async () => {
  const code = `
asked = [
    await search('issues', limit=3), await describe('a:b', {'level': 'full'}), await examples('a:b'),
    await chain([{'id': 'x'}], input={'y': 1}),
    await artifacts.put('a.txt', 'text', mimeType='text/plain'), await artifacts.put('b', b'\\x00\\xff'), await artifacts.get('id'),
]
return [[one['kind'], one['asked']] for one in asked]
`
  const { outcome } = await run(code, adding)
  assert.deepEqual(outcome.value, [
    ['search', { limit: 3, words: 'issues' }],
    ['describe', { level: 'full', tool: 'a:b' }],
    ['examples', { tool: 'a:b' }],
    ['chain', { input: { y: 1 }, steps: [{ id: 'x' }] }],
    ['artifact', { put: { mimeType: 'text/plain', name: 'a.txt', content: 'text' } }],
    ['artifact', { put: { name: 'b', base64: 'AP8=' } }],
    ['artifact', { get: 'id' }],
  ])
})

sandboxTest('sleeping for an invalid duration raises an error in the Python program', async () => {
  const code = `
wrong = []
for ms in (float('nan'), float('inf'), -1, -0.5, '5', None, True, [1]):
    try:
        await sleep(ms)
    except ValueError as error:
        wrong.append(str(error))
await sleep(0)
await sleep(1.5)
return wrong
`
  const deterministic = { seed: 1, nowMs: 1_000 }
  const { outcome, questions } = await run(code, () => ({ ok: true, text: 'null' }), { deterministic })
  const message = 'sleep takes a number of milliseconds that is finite and not below 0'
  assert.deepEqual(outcome.value, Array(8).fill(message), JSON.stringify(outcome.fault))
  assert.deepEqual(
    questions.map(({ text }) => text),
    ['{"ms":2}'],
  )
})

sandboxTest(
  'a Python program catches a tool error with its code; an uncaught one becomes the program’s fault',
  async () => {
    const caught = `
try:
    await tools.math.fail()
except ToolError as error:
    return [error.code, error.message, error.retryable, error.details]
`
    const { outcome } = await run(caught, adding)
    assert.deepEqual(outcome.value, ['BACKEND_FAILED', 'no math:fail', true, { why: 'test' }])
    const thrown = await run('async def inner():\n    ä = 1; await tools.math.fail()\n\nawait inner()', adding)
    const { stack, ...fault } = thrown.outcome.fault ?? {}
    const error = { code: 'BACKEND_FAILED', message: 'no math:fail', retryable: true, details: { why: 'test' } }
    const message = 'no math:fail'
    assert.deepEqual(fault, { kind: 'run', name: 'ToolError', message, line: 2, column: 12, error })
    assert.equal(stack, 'at inner (main.py:2:12)\nat <module> (main.py:4:1)')
    assert.deepEqual([thrown.outcome.exit, thrown.outcome.value], [{ code: 1 }, undefined])
  },
)

const lost = 'is a whole number beyond 2**53 - 1, which would lose digits; pass it as a string'
const half = 'holds half of a character pair'

sandboxTest(
  'an argument that JSON cannot represent raises in the Python program, and no gateway request is made',
  async () => {
    const code = `
big = 2**60 + 1
half = chr(0xd800)
writes = [
    lambda: tools.demo.echo(value=big), lambda: tools.demo.echo({'rows': [1, {'a/b': -2**53}]}),
    lambda: run('demo:echo', value=(big,)), lambda: chain([{'tool': 'demo:echo', 'args': {'value': big}}]),
    lambda: chain([], input=[10**5000]), lambda: search('x', limit=2**53), lambda: describe('a:b', level=big),
    lambda: artifacts.put('a.json', {'id': big}), lambda: artifacts.get(big),
    lambda: tools.demo.echo(value=['ok', half]), lambda: tools.demo.echo(value={half: 1}),
    lambda: tools.demo.echo(**{half: {'x': big}}), lambda: search(half), lambda: artifacts.put('a.txt', half),
    lambda: artifacts.put('a.json', {'text': half}), lambda: tools.demo.echo(value={1: 'a', '1': 'b'}),
]
refused = []
for write in writes:
    try:
        write()
    except TypeError as error:
        refused.append(str(error))
return refused
`
    const { outcome, questions } = await run(code, adding)
    assert.deepEqual(outcome.value, [
      `/args/value ${lost}`,
      `/args/rows/1/a~1b ${lost}`,
      `/args/value/0 ${lost}`,
      `/steps/0/args/value ${lost}`,
      `/input/0 ${lost}`,
      `/limit ${lost}`,
      `/level ${lost}`,
      `/put/content/id ${lost}`,
      `/get ${lost}`,
      `/args/value/1 ${half}`,
      `/args/value has a key that ${half}`,
      `/args has a key that ${half}`,
      `/words ${half}`,
      `/put/content ${half}`,
      `/put/content/text ${half}`,
      '/args/value has a key of type int; give it as a str',
    ])
    assert.deepEqual(questions, [])
  },
)

sandboxTest('a Python program passes integers, floats, booleans and strings that JSON can represent', async () => {
  const code = `
await search('\\U0001f600', limit=[2**53 - 1, 1 - 2**53, 1e300, 2.0**60, True, False, None, ('a', {'b': 0.5})])
`
  const { questions } = await run(code, adding)
  assert.deepEqual(
    questions.map(({ text }) => JSON.parse(text)),
    [{ limit: [2 ** 53 - 1, 1 - 2 ** 53, 1e300, 2 ** 60, true, false, null, ['a', { b: 0.5 }]], words: '😀' }],
  )
})

sandboxTest('a return value that JSON cannot represent is reported with its path', async () => {
  const messageOf = async (code: string) => (await run(code, adding)).outcome.fault?.message
  const not = 'the value of the program is not JSON:'
  assert.equal(await messageOf('return 2**53'), `${not} it ${lost}`)
  assert.equal(await messageOf("return {'a': [0, 2**53]}"), `${not} /a/1 ${lost}`)
  assert.equal(await messageOf('return chr(0xdfff)'), `${not} it ${half}`)
  assert.equal(await messageOf('return [{chr(0xd800): 1}]'), `${not} /0 has a key that ${half}`)
  assert.equal(await messageOf('x = []\nx.append(x)\nreturn x'), `${not} it is nested too deeply, or holds itself`)
})

sandboxTest(
  'an error message with lone surrogates is reported with its position, and the surrogates are escaped',
  async () => {
    const { outcome } = await run('\nraise ValueError("a" + chr(0xd800))', adding)
    const { name, message, line } = outcome.fault ?? {}
    assert.deepEqual([name, message, line], ['ValueError', 'a\\ud800', 2])
    const own = await run("raise ToolError({'code': 'X', 'message': 'm', 'details': {'n': 2**53}})", adding)
    assert.deepEqual(
      [own.outcome.fault?.name, own.outcome.fault?.message, own.outcome.fault?.line],
      ['ToolError', 'm', 1],
    )
  },
)

sandboxTest(
  'a program that does not compile, exits early or returns no JSON has a fault with position and reason',
  async () => {
    const faultOf = async (code: string) => (await run(code, adding)).outcome.fault
    const { message, ...wrong } = (await faultOf('x = 1\nif x\n    pass')) ?? { message: '' }
    assert.deepEqual(wrong, { kind: 'compile', name: 'SyntaxError', line: 2, column: 5 })
    assert.match(message, /expected ':'/)
    assert.deepEqual(await faultOf('import sys\nsys.exit("no more")'), {
      kind: 'run',
      name: 'SystemExit',
      message: 'no more',
      line: 2,
      column: 1,
      stack: 'at <module> (main.py:2:1)',
    })
    assert.match((await faultOf('return {1, 2}'))?.message ?? '', /is not JSON.*set/)
    assert.match((await faultOf('await tools.math.add(1, 2)'))?.message ?? '', /positional/)
    assert.match((await faultOf('await tools.math.add({"a": object()})'))?.message ?? '', /not JSON serializable/)
  },
)

sandboxTest(
  'a hundred parallel calls form one batch and complete in any order; a thousand sequential calls work',
  async () => {
    const held: (() => void)[] = []
    const backwards = await run(
      'return sum(await asyncio.gather(*(tools.math.add(a=n, b=1) for n in range(100))))',
      async (question) => {
        await new Promise<void>((resolve) => {
          held.push(resolve)
          if (held.length === 100) for (const each of held.reverse()) each()
        })
        return adding(question)
      },
    )
    assert.equal(backwards.outcome.value, 5_050)
    assert.deepEqual(
      backwards.rests[0],
      Array.from({ length: 100 }, (_, index) => index + 1),
    )
    const { outcome, questions } = await run(
      'total = 0\nfor n in range(1000):\n    total = await tools.math.add(a=total, b=n)\nreturn total',
      adding,
    )
    assert.deepEqual([outcome.value, questions.length], [499_500, 1_000])
  },
)

sandboxTest('programs that use asyncio.run or do not await their calls end with all calls made', async () => {
  const own = await run(
    'async def main():\n    print(await tools.math.add(a=1, b=1))\nasyncio.run(main())\nreturn 5',
    adding,
  )
  assert.deepEqual([own.stdout, own.outcome.value], ['2\n', 5])
  const seen: string[] = []
  const later = await run(
    'tools.math.add(a=1, b=1)\nawait asyncio.sleep(0)\nreturn tools.math.add(a=2, b=2)',
    (question) => {
      seen.push(question.text)
      return adding(question)
    },
  )
  assert.deepEqual([later.outcome.value, seen.length], [4, 2])
  const unasked = await run('return tools.math.add(a=2, b=2)', adding)
  assert.equal(unasked.outcome.value, 4)
  assert.deepEqual((await run('x = 1', adding)).outcome.value, null)
})

const times = `
import time, datetime, random, uuid
marks = [time.time()]
async def one(n):
    await asyncio.sleep(n)
    marks.append([n, time.time(), time.monotonic()])
await asyncio.gather(one(3), one(1), sleep(2000))
time.sleep(5)
marks.append([datetime.datetime.now(datetime.timezone.utc).isoformat(), random.random(), str(uuid.uuid4()), list({'a', 'b', 'c'})])
try:
    await asyncio.wait_for(tools.never.answers(), 7)
except TimeoutError:
    marks.append('late')
return marks
`

sandboxTest(
  'in deterministic mode a sleep is a gateway request, the clock advances with responses, and a run is repeatable',
  async () => {
    const once = async () => {
      let nowMs = 1_000_000
      const kinds: string[] = []
      const made = await run(
        times,
        ({ kind, text }) => {
          kinds.push(kind)
          if (kind !== 'sleep') return undefined
          nowMs += 1_000
          return { ok: true, text: 'null', nowMs: nowMs + JSON.parse(text).ms }
        },
        { deterministic: { seed: 7, nowMs } },
      )
      return { made, kinds, asked: made.questions.map(({ text }) => text) }
    }
    const [first, second] = [await once(), await once()]
    assert.deepEqual(first.kinds, ['sleep', 'sleep', 'sleep', 'sleep', 'call', 'sleep'])
    assert.deepEqual(first.asked.slice(0, 4), ['{"ms":3000}', '{"ms":1000}', '{"ms":2000}', '{"ms":5000}'])
    const [start, three, one, facts, late] = first.made.outcome.value as unknown[]
    assert.deepEqual([start, three, one, late], [1000, [3, 1004, 4], [1, 1004, 4], 'late'])
    assert.equal((facts as unknown[])[0], '1970-01-01T00:16:49+00:00')
    assert.deepEqual(second.asked, first.asked)
    assert.deepEqual(second.made.outcome.value, first.made.outcome.value)
    assert.deepEqual(second.made.rests, first.made.rests)
  },
)

sandboxTest('a program reads one gateway response at a time and is quiescent between two', async () => {
  const code = `
order = []
async def one(n):
    order.append(['asked', n])
    await tools.math.add(a=n, b=0)
    order.append(['read', n])
    await tools.math.add(a=n, b=0)
    order.append(['read again', n])
await asyncio.gather(one(1), one(2))
return order
`
  const { outcome, rests } = await run(code, adding, { deterministic: { seed: 1, nowMs: 0 } })
  const said = (outcome.value as [string, number][]).map(([word, n]) => `${word} ${n}`)
  assert.deepEqual(said.slice(0, 4), ['asked 1', 'asked 2', 'read 1', 'read 2'])
  assert.deepEqual(rests[0], [1, 2])
  assert.deepEqual(rests.flat(), [1, 2, 3, 4])
})
