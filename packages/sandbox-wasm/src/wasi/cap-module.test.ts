import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BinaryError, pageBytes, type WasmMemory, webAssembly } from '../guest/binary.ts'
import { type Assembly, assemble, op } from './assemble.fixture.ts'
import { capModule, mostModuleBytes } from './run-module.ts'

const nothing = { body: [] as readonly number[] }

function memoryOf(bytes: Uint8Array): WasmMemory {
  const { memory } = new webAssembly.Instance(new webAssembly.Module(bytes), {}).exports
  return memory as WasmMemory
}

function refused(assembly: Assembly, reason: RegExp): void {
  assert.throws(
    () => capModule(assemble(assembly), 10 * pageBytes),
    (error) => error instanceof BinaryError && reason.test(error.message),
  )
}

test('a memory is capped at the limit, whether it declares a maximum or not', () => {
  for (const memory of [
    [0, 1],
    [1, 1, 0xff, 0xff, 0x03],
  ]) {
    const module = assemble({ ...nothing, memories: [memory] })
    assert.equal(memoryOf(module).grow(100), 1, 'without the cap it grows')
    const held = memoryOf(capModule(module, 10 * pageBytes))
    assert.equal(held.grow(9), 1)
    assert.throws(() => held.grow(1), RangeError)
  }
})

test('a declared maximum below the limit is kept', () => {
  const held = memoryOf(capModule(assemble({ ...nothing, memories: [[1, 1, 2]] }), 10 * pageBytes))
  assert.throws(() => held.grow(2), RangeError)
})

test('a memory that starts above the limit is refused', () => {
  refused({ ...nothing, memories: [[0, 11]] }, /memory starts larger/)
})

test('64-bit memory, shared memory and a second memory are refused', () => {
  refused({ ...nothing, memories: [[4, 1]] }, /64 bits/)
  refused({ ...nothing, memories: [[3, 1, 2]] }, /shared/)
  refused(
    {
      ...nothing,
      memories: [
        [0, 1],
        [0, 1],
      ],
    },
    /more than one memory/,
  )
})

test('GC types are refused, because their heap is outside the capped memory', () => {
  refused({ ...nothing, types: [[0x5e, 0x7f, 1]] }, /types other than functions/)
})

test('tables above the maximum size or number are refused', () => {
  refused({ ...nothing, tables: [[0x6f, 0, 0x81, 0x89, 0x7a]] }, /table starts larger/)
  refused({ ...nothing, tables: Array.from({ length: 17 }, () => [0x70, 0, 1]) }, /tables/)
})

test('a module of more than 16 MiB is refused unread', () => {
  assert.throws(() => capModule(new Uint8Array(mostModuleBytes + 1), pageBytes), /larger than/)
})

test('invalid and truncated modules are refused without looping', () => {
  const module = assemble({ body: op.unreachable })
  for (let length = 0; length < module.length; length++) {
    const cut = module.slice(0, length)
    try {
      capModule(cut, pageBytes)
    } catch (error) {
      assert.ok(error instanceof BinaryError)
    }
  }
  assert.throws(
    () => capModule(Uint8Array.of(...module.slice(0, 8), 1, 0xff, 0xff, 0xff, 0xff, 0xff), pageBytes),
    BinaryError,
  )
})
