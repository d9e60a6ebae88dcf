import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeFrame } from './failure.ts'

test('a frame shows the line with its neighbours and a mark under the column', () => {
  const source = 'one\ntwo\nthree\nfour\nfive\nsix'
  assert.equal(
    codeFrame(source, 3, 2),
    ['  1 | one', '  2 | two', '> 3 | three', '    |  ^', '  4 | four', '  5 | five'].join('\n'),
  )
  assert.equal(codeFrame(source, 6, undefined), ['  4 | four', '  5 | five', '> 6 | six'].join('\n'))
})

test('a long line is truncated around the column, and tabs do not move the mark', () => {
  const frame = codeFrame(`${'x'.repeat(500)}HERE${'y'.repeat(500)}`, 1, 501) ?? ''
  const [line = '', mark = ''] = frame.split('\n')
  assert.equal(line.slice(mark.indexOf('^'), mark.indexOf('^') + 4), 'HERE')
  assert.ok(line.length < 140)
  assert.equal(codeFrame('\tx', 1, 2), '> 1 |  x\n    |  ^')
})

test('a position outside of the source has no frame', () => {
  for (const line of [0, 3, -1, Number.NaN]) assert.equal(codeFrame('a\nb', line, 1), undefined)
})
