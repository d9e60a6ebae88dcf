import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ToolError } from '@gantry/contract'
import type { ProgramRequest, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'
import fc from 'fast-check'
import { createGatewayChannel } from './gateway-channel.ts'

/** The host's end without a program, with what it sent, asked and failed with. */
function opened(unread = 0) {
  const sent: string[] = []
  const rests: (readonly ProgramRequest[])[] = []
  const works: boolean[] = []
  const failures: ToolError[] = []
  let answer: ((answer: ProgramResponse) => void) | undefined
  const gateway = createGatewayChannel({
    gateway: {
      ask(questions, given, working) {
        rests.push(questions)
        works.push(working === true)
        answer = given
      },
    },
    send(line) {
      sent.push(line)
      return unread
    },
    fail: (error) => failures.push(error),
  })
  const tell = (given: ProgramResponse): void => answer?.(given)
  return { gateway, sent, rests, works, failures, tell }
}

test('gateway requests are delivered at quiescence, and only when the program has read every response', () => {
  const { gateway, sent, rests, tell } = opened()
  gateway.take('? 1 call {"a":1}')
  gateway.take('? 2 sleep {"ms":1}')
  assert.equal(rests.length, 0)
  gateway.take('. 0')
  tell({ number: 2, ok: true, text: 'null', nowMs: 12.7 })
  gateway.take('? 3 call {}')
  gateway.take('. 0')
  assert.equal(rests.length, 1, 'an answer is on its way to it')
  gateway.take('. 1')
  assert.deepEqual(
    rests.map((rest) => rest.map(({ number, kind }) => `${number} ${kind}`)),
    [['1 call', '2 sleep'], ['3 call']],
  )
  tell({ number: 1, ok: false, text: '{\n"code":"X"}' })
  assert.deepEqual(sent, ['2 1 12 null', '1 0 - { "code":"X"}'])
})

test('a quiescence report states whether threads or children of the program may still be running', () => {
  const { gateway, rests, works, failures } = opened()
  gateway.take('? 1 call {}')
  gateway.take('~ 0')
  gateway.take('. 0')
  assert.deepEqual([rests.map(({ length }) => length), works, failures], [[1, 0], [true, false], []])
})

test('a repeated quiescence report, and a repeated end, end the run', () => {
  for (const line of ['. 0', '~ 0', '= 1', '! {}']) {
    const { gateway, rests, failures } = opened()
    gateway.take('? 1 call {}')
    gateway.take('. 0')
    for (let count = 0; count < 1_000; count++) gateway.take(line)
    assert.deepEqual([failures.map(({ code }) => code), rests.length], [['CODE_FAILED'], 1], line)
  }
})

test('a gateway response is sent once for its number, and not after the end', () => {
  const { gateway, sent, failures, tell } = opened()
  gateway.take('? 1 call {}')
  gateway.take('? 2 call {}')
  gateway.take('. 0')
  tell({ number: 1, ok: true, text: '1' })
  gateway.close()
  tell({ number: 2, ok: true, text: '2' })
  assert.deepEqual([sent, failures], [['1 1 - 1'], []])
  const again = opened()
  again.gateway.take('? 1 call {}')
  again.gateway.take('. 0')
  again.tell({ number: 1, ok: true, text: '1' })
  again.tell({ number: 1, ok: true, text: '2' })
  assert.deepEqual([again.sent.length, again.failures[0]?.code], [1, 'BACKEND_FAILED'])
})

test('a program’s report of its end is read as a value, or as a fault of bounded size', () => {
  const { gateway } = opened()
  gateway.take('= {"a":[1]}')
  assert.deepEqual(gateway.said(), { value: { a: [1] } })
  gateway.take('= {"a"')
  assert.equal(gateway.said().fault?.kind, 'run')
  const long = 'x'.repeat(100_000)
  gateway.take(`! ${JSON.stringify({ kind: 'other', name: 1, message: long, line: -1, column: 2.5, stack: long })}`)
  const { fault } = gateway.said()
  assert.deepEqual([fault?.kind, fault?.name, fault?.line, fault?.column], ['run', 'Error', undefined, undefined])
  assert.ok((fault?.message.length ?? 0) < 10_000 && (fault?.stack?.length ?? 0) < 10_000)
  gateway.take('! no')
  assert.deepEqual(gateway.said(), { fault: { kind: 'run', name: 'Error', message: '' } })
})

test('a program that made a gateway request cannot report that it was never compiled', () => {
  const { gateway } = opened()
  gateway.take('! {"kind":"compile","message":"no"}')
  assert.equal(gateway.said().fault?.kind, 'compile')
  gateway.take('? 1 call {}')
  assert.equal(gateway.said().fault?.kind, 'run')
  gateway.take('! {"kind":"compile","message":"no"}')
  assert.deepEqual([gateway.said().fault?.kind, gateway.said().fault?.message], ['run', 'no'])
})

test('a program that does not read its responses is ended before they fill the host’s memory', () => {
  for (const [unread, code] of [
    [64 * 2 ** 20, undefined],
    [64 * 2 ** 20 + 1, 'LIMIT_EXCEEDED'],
  ] as const) {
    const { gateway, failures, tell } = opened(unread)
    gateway.take('? 1 call {}')
    gateway.take('. 0')
    tell({ number: 1, ok: true, text: '1' })
    assert.equal(failures[0]?.code, code)
  }
})

test('for arbitrary lines, request numbers stay in order, at most one failure is reported, and nothing throws', () => {
  const line = fc.oneof(
    fc
      .tuple(fc.integer({ min: -1, max: 4 }), fc.constantFrom('call', 'sleep', 'x y', ''))
      .map(([n, kind]) => `? ${n} ${kind} {}`),
    fc.integer({ min: -1, max: 3 }).map((read) => `. ${read}`),
    fc.constantFrom('= 1', '= x', '! {}', '! x', '', '?', '.', '? 1', '. '),
    fc.string(),
  )
  fc.assert(
    fc.property(fc.array(line, { maxLength: 20 }), (lines) => {
      const { gateway, rests, failures, tell } = opened()
      for (const each of lines) {
        const before = rests.length
        gateway.take(each)
        if (rests.length > before && rests.at(-1)?.[0] !== undefined) {
          tell({ number: rests.at(-1)?.[0]?.number ?? 0, ok: true, text: '1' })
        }
      }
      const numbers = rests.flat().map(({ number }) => number)
      assert.deepEqual(
        numbers,
        numbers.map((_, index) => index + 1),
      )
      assert.ok(failures.length <= 1 && failures.every(({ code }) => code === 'CODE_FAILED'))
    }),
  )
})
