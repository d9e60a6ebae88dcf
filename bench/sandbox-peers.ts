import variant from '@jitl/quickjs-ng-wasmfile-release-sync'
import {
  newQuickJSWASMModuleFromVariant,
  type QuickJSSyncVariant,
  type QuickJSWASMModule,
} from 'quickjs-emscripten-core'

const loaded: { module?: Promise<QuickJSWASMModule> } = {}

/** A new runtime and context of QuickJS in this thread, one evaluation, and both freed. */
export async function freshQuickjs(): Promise<void> {
  loaded.module ??= newQuickJSWASMModuleFromVariant(variant as unknown as QuickJSSyncVariant)
  const context = (await loaded.module).newContext()
  context.unwrapResult(context.evalCode('6*7')).dispose()
  context.dispose()
}
