import assert from 'node:assert/strict'
import { test } from 'node:test'
import { importOpenapi } from '@gantry/openapi'
import { importText } from './import.ts'

test('the report groups warnings of one kind into one line with their count, after single warnings', () => {
  const operation = (at: number) => ({
    get: {
      parameters: [{ name: 'a', in: 'query', style: `odd${at}`, schema: { type: 'string' } }],
      responses: {},
    },
  })
  const paths = {
    ...Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`/p${at}`, operation(at)])),
    '/once': { get: { requestBody: { content: { 'text/plain': { schema: { type: 'string' } } } }, responses: {} } },
    '/a#b': { get: { responses: {} } },
  }
  const document = {
    openapi: '3.0.3',
    info: { title: 'T', version: '1.0.0' },
    servers: [{ url: 'https://a.example' }],
    paths,
  }
  const text = importText(importOpenapi(document, { name: 'api' }), './api.tools.json')
  assert.match(text, /Left out \(1\):\n {2}GET \/a#b: its path holds #/)
  assert.match(
    text,
    /Warnings \(2\):\n {2}GET \/once: an optional body[^\n]*\n[^\n]*is not a style[^\n]*\(and 39 more like it\)\n/,
  )
})

test('the report says when the address of the API is private, so that calls are refused', () => {
  const reportOf = (url: string): string => {
    const paths = { '/a': { get: { responses: {} } } }
    const document = { openapi: '3.0.3', info: { title: 'T', version: '1.0.0' }, servers: [{ url }], paths }
    return importText(importOpenapi(document, { name: 'api' }), './api.tools.json')
  }
  for (const host of ['127.0.0.1:80', '10.1.2.3', 'localhost:8080', '[::1]:80', '[fd12::1]']) {
    assert.match(reportOf(`http://${host}/v1`), /\n\nThe address is a private one: .+ "private": true/, host)
  }
  for (const host of ['api.example.com', '93.184.215.14', 'localhost.example.com']) {
    assert.doesNotMatch(reportOf(`http://${host}/v1`), /private/, host)
  }
})
