import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createDockerRuntime } from '@gantry/sandbox-containers'
import { dockerSocket } from './engines.fixture.ts'
import { limits } from './limits.fixture.ts'

const never = new AbortController().signal
const runtime = createDockerRuntime({ socket: dockerSocket() })
after(() => runtime.close())

async function resultOf(code: string): Promise<unknown> {
  const sandbox = await runtime.open({ language: 'python', limits, network: 'none' }, never)
  try {
    const { value, stderr } = await sandbox.run({ program: { kind: 'code', language: 'python', code } }, never)
    assert.equal(new TextDecoder().decode(stderr.bytes), '')
    return value
  } finally {
    await sandbox.dispose()
  }
}

test('modules that the driver imported from the library of the image look as if they came from their own files', async () => {
  const code = `
import inspect, json, sys
return [type(json.__loader__).__name__, json.__spec__.loader is json.__loader__, json.__file__, json.__cached__,
        json.__path__, inspect.getsource(json.loads)[:10], [getattr(one, '__name__', str(one)) for one in sys.meta_path]]`
  const [loader, isSame, file, cached, path, source, finders] = (await resultOf(code)) as readonly unknown[]
  assert.deepEqual([loader, isSame, source], ['SourceFileLoader', true, 'def loads('])
  assert.match(String(file), /^\/usr\/lib\/python3\.\d+\/json\/__init__\.py$/)
  assert.match(String(cached), /\/json\/__pycache__\/__init__\.cpython-\d+\.pyc$/)
  assert.equal((path as readonly string[]).length, 1)
  assert.deepEqual(finders, ['BuiltinImporter', 'FrozenImporter', 'PathFinder'])
})

test('the library of the image was made by the interpreter of the image, so that it is used', async () => {
  const code = `
import marshal, sys
with open('/gantry/drivers/python.library', 'rb') as file:
    version, modules = marshal.loads(file.read(int.from_bytes(file.read(4), 'little')))
return [version == sys.version, 'json' in modules, 'python' in modules, 'python_start' in sys.modules]`
  assert.deepEqual(await resultOf(code), [true, true, true, false])
})
