/** Sessions: cells that share their variables. */
import { Session } from 'node:inspector'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { Script } from 'node:vm'
import { nextJob, send } from './channel.mjs'
import { asFunction, extension, importModuleDynamically, located, plain, returns } from './code.mjs'
import { looseImports } from './imports.mjs'
import { deliver, sendValue, show } from './report.mjs'

/** Runs cells until the channel ends; what goes wrong later in a timer is shown and ends nothing. */
export async function runCells(first) {
  const evaluate = createConsole()
  process.on('uncaughtException', show)
  for (let job = first, count = 1; job !== undefined; job = await nextJob(), count += 1) {
    const code = await runCell(job.code, `cell-${count}.${extension}`, evaluate)
    send(`{"done":true,"code":${code}}`)
  }
  process.exit(0)
}

async function runCell(code, name, evaluate) {
  try {
    await evaluateCell(code, name, evaluate)
    return 0
  } catch (error) {
    show(error)
    return 1
  }
}

/** A cell that returns can only be a function, and keeps its variables to itself; every other one is for the console. */
async function evaluateCell(code, name, evaluate) {
  try {
    const text = plain(looseImports(code, '__gantryImport'), name, false)
    deliverLast(await evaluate(text, name))
  } catch (error) {
    if (!returns(error)) throw error
    deliver(await asFunction(looseImports(code), name)())
  }
}

/** A cell's last expression is shown when it cannot be sent, as a notebook would. */
function deliverLast(value) {
  try {
    sendValue(value)
  } catch {
    process.stdout.write(`${inspect(value)}\n`)
  }
}

/** Evaluates text as the console of a debugger does, which allows `await`, and declaring a name anew. */
function createConsole() {
  const session = new Session()
  session.connect()
  const post = (method, options) => {
    const { promise, resolve, reject } = Promise.withResolvers()
    session.post(method, options, (error, answer) => (error ? reject(error) : resolve(answer)))
    return promise
  }
  const taken = []
  defineGlobals((value) => taken.push(value))
  /** The thing itself, of which the console only tells; a promise is waited for. */
  const unwrap = async ({ objectId, unserializableValue, value }) => {
    if (unserializableValue !== undefined) return new Script(unserializableValue).runInThisContext()
    if (objectId === undefined) return value
    const functionDeclaration = 'function (value) { __gantryTake(value) }'
    await post('Runtime.callFunctionOn', { functionDeclaration, objectId, arguments: [{ objectId }] })
    await post('Runtime.releaseObject', { objectId })
    return taken.pop()
  }
  return async (text, name) => {
    const expression = `${text}\n//# sourceURL=${name}`
    const { result, exceptionDetails } = await post('Runtime.evaluate', {
      expression,
      replMode: true,
      awaitPromise: true,
    })
    if (exceptionDetails === undefined) return await unwrap(result)
    throw located(await unwrap(exceptionDetails.exception), [[name, text]])
  }
}

/** What cells have beside the language: `require`, and two things of ours that do not show. */
function defineGlobals(take) {
  const load = new Script('(source, options) => import(source, options)', {
    filename: 'main.js',
    importModuleDynamically,
  })
  const globals = {
    require: createRequire(join(process.cwd(), `main.${extension}`)),
    __gantryImport: load.runInThisContext(),
    __gantryTake: take,
  }
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
  }
}
