import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { checkGrpcOptions, fillMetadata, type GrpcOptions } from './options.ts'
import { commentsOfProto } from './source.ts'

const sound: GrpcOptions = { name: 'calc', address: 'localhost:50051', reflection: true }

function pathsOf(options: object): string[] {
  try {
    checkGrpcOptions(options as GrpcOptions)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID')
    return (error.details?.issues ?? []).map(({ path }) => path)
  }
  return []
}

test('an address is parsed like a URL, and uses TLS unless it says otherwise', () => {
  const place = (address: string, rest: Partial<GrpcOptions> = {}) => {
    const { host, port, secure } = checkGrpcOptions({ ...sound, address, ...rest })
    return [host, port, secure]
  }
  assert.deepEqual(place('calc.example:443'), ['calc.example', 443, true])
  assert.deepEqual(place('localhost:50051', { tls: false }), ['localhost', 50051, false])
  assert.deepEqual(place('grpcs://Calc.Example'), ['calc.example', 443, true])
  assert.deepEqual(place('grpc://[::1]:80'), ['::1', 80, false])
  // What looks like a name is an address, and the guard must see it as one.
  assert.deepEqual(place('grpc://2130706433:1'), ['127.0.0.1', 1, false])
})

test('invalid options are refused with their paths', () => {
  assert.deepEqual(pathsOf(sound), [])
  for (const address of ['calc', 'http://calc:1', 'grpc://u@calc:1', 'grpc://calc:1/path', 'calc:0', 'a b:1', 5]) {
    assert.deepEqual(pathsOf({ ...sound, address }), ['/address'], String(address))
  }
  assert.deepEqual(pathsOf({ ...sound, address: 'grpc://calc:1', tls: true }), ['/address'])
  assert.deepEqual(pathsOf({ ...sound, address: 'grpcs://calc:1', tls: false }), ['/address'])
  assert.deepEqual(pathsOf({ ...sound, proto: 'a.proto' }), ['/proto'])
  assert.deepEqual(pathsOf({ name: 'calc', address: 'calc:1' }), ['/proto'])
  assert.deepEqual(pathsOf({ ...sound, name: 'a:b' }), ['/name'])
  assert.deepEqual(pathsOf({ ...sound, adress: 'x' }), ['/adress'])
  assert.deepEqual(pathsOf({ ...sound, tls: { rejectUnauthorized: false } }), ['/tls/rejectUnauthorized'])
  assert.deepEqual(pathsOf({ ...sound, effects: { 'a.B/C': 'readonly' } }), ['/effects/a.B~1C'])
  assert.deepEqual(pathsOf({ ...sound, maxResponseBytes: 0, tools: true }), ['/maxResponseBytes', '/tools'])
  for (const name of ['Upper', ':path', 'grpc-timeout', 'te', 'content-type', '']) {
    assert.equal(pathsOf({ ...sound, metadata: { [name]: 'x' } }).length, 1, name)
  }
  assert.deepEqual(pathsOf({ ...sound, metadata: { 'x-a': 'a\r\nb', 'x-bin': '***' } }), [
    '/metadata/x-a',
    '/metadata/x-bin',
  ])
})

test('a secret reference may be a whole metadata value or a part of it', async () => {
  const filled = await fillMetadata(
    [{ a: 'secret:one', b: 'Basic secret:two.' }, { c: 'plain' }],
    'key-1',
    async (name) => `<${name}>`,
  )
  assert.deepEqual(filled, { 'idempotency-key': 'key-1', a: '<one>', b: 'Basic <two>.', c: 'plain' })
})

test('an idempotency key that is not a valid header value is omitted', async () => {
  assert.deepEqual(await fillMetadata([], 'ключ\n', async () => ''), {})
})

test('comments directly before methods are read; trailing and detached comments are not', () => {
  const text = `
    package a.b; // not this
    // of the service
    service S {
      // lost: an empty line follows

      rpc None(X) returns (Y); // behind
      // one
      /* two
       * three */
      rpc Some(X) returns (Y) { option (http) = "// no"; }
      rpc Bare(X) returns (Y);
    }`
  assert.deepEqual(commentsOfProto(text), [['a.b.S/Some', 'one\ntwo\nthree']])
})

test('importing the backend loads neither the parser of proto files nor a gRPC library', () => {
  const script = `await import('./grpc.ts'); const { default: { _cache } } = await import('node:module');
    console.log(Object.keys(_cache).filter((path) => /grpc-js|proto-loader|protobufjs/.test(path)).length)`
  const options = { cwd: import.meta.dirname, encoding: 'utf8' } as const
  assert.equal(execFileSync(process.execPath, ['--input-type=module', '-e', script], options).trim(), '0')
  const loaded = script.replace("import('./grpc.ts')", "import('@grpc/proto-loader')")
  assert.notEqual(execFileSync(process.execPath, ['--input-type=module', '-e', loaded], options).trim(), '0')
})
