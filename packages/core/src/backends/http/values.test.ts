import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '@gantry/contract'
import { joinPairs } from './body.ts'
import { encode, type ParameterTarget, writePairs, writeText } from './parameters.ts'

const place: ParameterTarget = {
  argument: 'color',
  name: 'color',
  style: 'form',
  explode: false,
  reserved: false,
  json: false,
}
const list = ['blue', 'black']
const object = { R: 100, G: 200 }

test('paths are written in every style of OpenAPI', () => {
  const rows: [style: ParameterTarget['style'], explode: boolean, value: Json, text: string][] = [
    ['simple', false, 'blue', 'blue'],
    ['simple', false, list, 'blue,black'],
    ['simple', false, object, 'R,100,G,200'],
    ['simple', true, object, 'R=100,G=200'],
    ['label', false, 'blue', '.blue'],
    ['label', false, list, '.blue,black'],
    ['label', true, list, '.blue.black'],
    ['label', false, object, '.R,100,G,200'],
    ['label', true, object, '.R=100.G=200'],
    ['matrix', false, '', ';color'],
    ['matrix', false, 'blue', ';color=blue'],
    ['matrix', false, list, ';color=blue,black'],
    ['matrix', true, list, ';color=blue;color=black'],
    ['matrix', false, object, ';color=R,100,G,200'],
    ['matrix', true, object, ';R=100;G=200'],
  ]
  for (const [style, explode, value, text] of rows) {
    assert.equal(writeText({ ...place, style, explode }, value, encode), text, `${style} ${explode}`)
  }
})

test('queries are written in every style of OpenAPI', () => {
  const rows: [style: ParameterTarget['style'], explode: boolean, value: Json, text: string][] = [
    ['form', true, 'a b&c', 'color=a%20b%26c'],
    ['form', true, list, 'color=blue&color=black'],
    ['form', false, list, 'color=blue,black'],
    ['form', true, object, 'R=100&G=200'],
    ['form', false, object, 'color=R,100,G,200'],
    ['form', true, [], ''],
    ['form', false, [], ''],
    ['form', true, null, ''],
    ['form', true, [{ a: 1 }, true], 'color=%7B%22a%22%3A1%7D&color=true'],
    ['spaceDelimited', false, list, 'color=blue%20black'],
    ['spaceDelimited', true, list, 'color=blue&color=black'],
    ['pipeDelimited', false, list, 'color=blue%7Cblack'],
    ['pipeDelimited', false, object, 'color=R%7C100%7CG%7C200'],
    ['deepObject', true, object, 'color%5BR%5D=100&color%5BG%5D=200'],
    ['deepObject', true, { a: { b: [1, 2] } }, 'color%5Ba%5D%5Bb%5D=1&color%5Ba%5D%5Bb%5D=2'],
    ['deepObject', true, { a: [{ b: 1 }] }, 'color%5Ba%5D%5B0%5D%5Bb%5D=1'],
  ]
  for (const [style, explode, value, text] of rows) {
    assert.equal(joinPairs(writePairs({ ...place, style, explode }, value)), text, `${style} ${explode} ${text}`)
  }
})

test('a parameter can be JSON text, or keep the reserved characters that cannot split a query', () => {
  assert.deepEqual(writePairs({ ...place, json: true }, { a: [1] }), [['color', '%7B%22a%22%3A%5B1%5D%7D']])
  assert.equal(writeText({ ...place, style: 'simple', json: true }, { a: 1 }, encode), '%7B%22a%22%3A1%7D')
  const kept = writePairs({ ...place, reserved: true }, ":/?@!$'()*,=&+#[];%\\ ")
  assert.deepEqual(kept, [['color', ":/?@!$'()*,=%26%2B%23%5B%5D%3B%25%5C%20"]])
})

test('a lone surrogate is refused', () => {
  assert.throws(() => writePairs(place, '\ud800'), { code: 'INPUT_INVALID' })
  assert.throws(() => writePairs({ ...place, explode: true }, { '\udc00': 1 }), { code: 'INPUT_INVALID' })
})
