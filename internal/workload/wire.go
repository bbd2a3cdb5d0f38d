// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// Most of a Node is never read, and kubelets send it every few minutes: a list of images, for example. Decoding it costs more than everything
// else that the manager does with a heartbeat, so it is removed from the answer before that. Strip decides what is kept of a decoded Node; the
// fields here are those that it keeps.

// message selects the fields of a protobuf message to keep, and what to keep of them: all of it if the value is nil.
type message map[protowire.Number]message

// The numbers are those of generated.proto in k8s.io/api and k8s.io/apimachinery.
var (
	nodeOnWire = message{
		// metadata: name, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels, annotations.
		1: {1: nil, 5: nil, 6: nil, 8: nil, 9: nil, 11: nil, 12: nil},
		// spec: providerID, taints.
		2: {3: nil, 5: nil},
		// status: conditions without lastHeartbeatTime and message.
		3: {4: {1: nil, 2: nil, 4: nil, 5: nil}},
	}
	unknownOnWire = message{1: nil, 2: nodeOnWire, 3: nil, 4: nil}
	// A list has the metadata and the items.
	listOnWire = message{1: nil, 2: message{1: nil, 2: nodeOnWire}, 3: nil, 4: nil}
)

const (
	// The fields of a WatchEvent, a RawExtension and a TypeMeta.
	eventObject, extensionRaw, typeMetaKind protowire.Number = 2, 1, 2
	// The fields of a runtime.Unknown, of an object, and of its metadata.
	unknownContent, objectMetadata, metadataName protowire.Number = 2, 1, 1
	// protobufMagic is the prefix of each object in protobuf.
	protobufMagic = "k8s\x00"
)

// trim appends a message with only the fields to keep. It returns false if the message is not valid protobuf.
func (m message) trim(to, from []byte) ([]byte, bool) {
	for len(from) > 0 {
		number, kind, n := protowire.ConsumeTag(from)
		if n < 0 {
			return nil, false
		}
		length := protowire.ConsumeFieldValue(number, kind, from[n:])
		if length < 0 {
			return nil, false
		}
		field, value := from[:n+length], from[n:n+length]
		from = from[n+length:]
		inner, kept := m[number]
		switch {
		case !kept:
		case inner == nil || kind != protowire.BytesType:
			to = append(to, field...)
		default:
			content, _ := protowire.ConsumeBytes(value)
			to = protowire.AppendTag(to, number, kind)
			begin, valid := len(to), false
			if to, valid = inner.trim(to, content); !valid {
				return nil, false
			}
			to = insertLength(to, begin)
		}
	}
	return to, true
}

// insertLength moves what follows a position, and writes its length there.
func insertLength(to []byte, begin int) []byte {
	var length [binary.MaxVarintLen64]byte
	return slices.Insert(to, begin, protowire.AppendVarint(length[:0], uint64(len(to)-begin))...) //nolint:gosec // It is not negative.
}

// field returns the content of a field of a message, the last one as decoders do; nil without one.
func field(of []byte, wanted protowire.Number) (content []byte) {
	for len(of) > 0 {
		number, kind, n := protowire.ConsumeTag(of)
		if n < 0 {
			return nil
		}
		length := protowire.ConsumeFieldValue(number, kind, of[n:])
		if length < 0 {
			return nil
		}
		if number == wanted && kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(of[n:])
		}
		of = of[n+length:]
	}
	return content
}

// objectOf returns the object of a watch event in protobuf; nil if it has none.
func objectOf(event []byte) []byte {
	object, _ := bytes.CutPrefix(field(field(event, eventObject), extensionRaw), []byte(protobufMagic))
	return object
}

// TrimEvent returns a watch event whose Node is trimmed, and every other event as it is.
func TrimEvent(event []byte) []byte {
	object := objectOf(event)
	if string(field(field(object, 1), typeMetaKind)) != "Node" {
		return event
	}
	// The other field of an event is its type.
	result, _ := message{1: nil}.trim(make([]byte, 0, len(event)/4), event)
	result = protowire.AppendTag(result, eventObject, protowire.BytesType)
	extension := len(result)
	result = protowire.AppendTag(result, extensionRaw, protowire.BytesType)
	raw := len(result)
	result, valid := unknownOnWire.trim(append(result, protobufMagic...), object)
	if !valid {
		return event
	}
	return insertLength(insertLength(result, raw), extension)
}

// trimList returns a list of Nodes with only the fields that are kept, and every other object as it is.
func trimList(answer []byte) []byte {
	object := answer[len(protobufMagic):]
	if string(field(field(object, 1), typeMetaKind)) != "NodeList" {
		return answer
	}
	trimmed, valid := listOnWire.trim(append(make([]byte, 0, len(answer)/4), protobufMagic...), object)
	if !valid {
		return answer
	}
	return trimmed
}

// What decoding needs, in bytes. An array grows while it is decoded, so its elements count almost twice.
const (
	// copies are those of an answer: what the client reads, and its texts.
	copies = 3
	// itemMemory is for an object of a list, valueMemory for a condition of a Node, or a value of an object without a type, and podMemory
	// for a container of a Pod.
	itemMemory, valueMemory, podMemory = 2 << 10, 176, 1536

	// nodeMemory is for a stripped Node, conditionMemory and pairMemory for a condition and for a label or annotation of it, without their
	// texts, and valueOnWire for a value of one that is not decoded yet.
	nodeMemory, conditionMemory, pairMemory, valueOnWire = 1536, 112, 72, 24
)

// memoryOf is about what a stripped Node needs.
func memoryOf(node *corev1.Node) int {
	return nodeMemory + conditionMemory*len(node.Status.Conditions) + pairMemory*(len(node.Labels)+len(node.Annotations)+len(node.Spec.Taints)) +
		node.Size()
}

// size is how much an answer contains.
type size struct {
	// items are the objects of a list, values all values that it has.
	items, values int
}

// memory returns what decoding an answer for this path needs, without its copies.
func (s *size) memory(path string) int64 {
	value := valueMemory
	if strings.HasSuffix(path, "/pods") {
		value = podMemory
	}
	return int64(s.items)*itemMemory + int64(s.values)*int64(value)
}

func (s *size) tooLarge() error {
	switch {
	case s.items > maxItems:
		return errTooManyItems
	case s.values > maxValues:
		return errTooManyValues
	}
	return nil
}

// jsonCounter counts in JSON that arrives in pieces. In anything else, it counts something.
type jsonCounter struct {
	*size
	// documents is the number of whole values, one after the other.
	documents int
	// depth is how many objects and arrays are open. list is whether the second of them is an array, which the items of a list are in.
	depth            int
	list             bool
	inText, isEscape bool
}

// add counts in the next piece.
func (j *jsonCounter) add(piece []byte) {
	for _, c := range piece {
		switch {
		case j.isEscape:
			j.isEscape = false
		case j.inText:
			j.isEscape, j.inText = c == '\\', c != '"'
		case c == '"':
			j.inText = true
		case c == '{' || c == '[':
			j.values++
			if j.depth++; j.depth == 2 {
				j.list = c == '['
				j.countItem()
			}
		case c == '}' || c == ']':
			if j.depth--; j.depth == 0 {
				j.documents++
			}
		case c == ',':
			j.values++
			j.countItem()
		}
	}
}

func (j *jsonCounter) countItem() {
	if j.depth == 2 && j.list {
		j.items++
	}
}

// isProtobuf reports whether a client decodes this as protobuf.
func isProtobuf(answer []byte) bool { return bytes.HasPrefix(answer, []byte(protobufMagic)) }

// sizeOfProtobuf counts in an object in protobuf. The items of a list are its second field.
func sizeOfProtobuf(answer []byte) size {
	var s size
	s.addFields(answer[len(protobufMagic):], 0)
	return s
}

// maxDepth is deeper than any object: a client does not decode deeper fields.
const maxDepth = 16

// addFields counts the fields of a message, and of what could be messages in it. It reads them as clients do, which decode all fields up to
// the first that is not valid.
func (s *size) addFields(message []byte, depth int) {
	for len(message) > 0 && s.values <= maxValues {
		tag, rest := varint(message)
		s.values++
		var length uint64
		switch protowire.Type(tag & 7) {
		case protowire.VarintType:
			_, rest = varint(rest)
		case protowire.Fixed64Type:
			length = 8
		case protowire.Fixed32Type:
			length = 4
		case protowire.BytesType:
			length, rest = varint(rest)
		case protowire.StartGroupType, protowire.EndGroupType:
		default:
			return
		}
		if length > uint64(len(rest)) {
			return
		}
		if depth == 1 && int32(tag>>3) == 2 { //nolint:gosec // As clients do.
			s.items++
		}
		if protowire.Type(tag&7) == protowire.BytesType && depth < maxDepth {
			s.addFields(rest[:length], depth+1)
		}
		message = rest[length:]
	}
}

// varint returns a number and what follows; nothing follows a number that is not valid.
func varint(from []byte) (value uint64, rest []byte) {
	for i := 0; i < len(from) && i < binary.MaxVarintLen64; i++ {
		if value |= uint64(from[i]&0x7f) << (7 * i); from[i] < 0x80 {
			return value, from[i+1:]
		}
	}
	return 0, nil
}
