import { testPinStore } from '../conformance/pin-store.ts'
import { memoryPins } from './memory.ts'

testPinStore('memory pins', () => memoryPins())
